#!/usr/bin/env bash
# The C++ compiler proper, cc1plus, on a file that includes much: captured through gcc's own -wrapper.
source "$(dirname "$0")/common.sh"
need g++ g++; need bc bc
cat >big.cpp <<'CPP'
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
int main() {
    std::map<std::string, std::vector<int>> m;
    std::regex r("([a-z]+)([0-9]*)");
    for (std::string line; std::getline(std::cin, line);) {
        std::smatch s;
        if (std::regex_match(line, s, r)) m[s[1]].push_back(s[2].length());
    }
    for (auto& [k, v] : m) std::cout << k << *std::max_element(v.begin(), v.end()) << '\n';
}
CPP
cc1plus=$(g++ -print-prog-name=cc1plus)
g++ -E big.cpp >big.ii
line=("$cc1plus" -quiet -O2 big.ii -o big.s)
native=$(seconds "${line[@]}")
took=$(seconds "$ambulator" capture --skip 500M --take 500M --out cc1plus.amb -- "${line[@]}")
row "cc1plus -O2 (a window of 500 M instructions)" 0 cc1plus.amb "$took"
