# Two commands do everything on a fresh machine: `make demo` and `make test`.
.PHONY: demo test bench doc lint ci setup clean pgo install test-library capture-plugin dram-reference kernel-density

CARGO ?= cargo
# Where cargo builds.
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
AMBULATOR := $(TARGET_DIR)/release/ambulator
DEMO_DESIGNS := radix,thp,flattened,asap,l2tlb-128k,ideal,perfect-tlb

# Compares translation designs on a captured real program and on a kernel, and says why they differ.
demo: setup $(AMBULATOR)
	@mkdir -p out
	$(AMBULATOR) compare traces/mummer.amb --designs $(DEMO_DESIGNS) --json out/demo-mummer.json
	$(AMBULATOR) compare gups --footprint 8GiB --designs $(DEMO_DESIGNS) --instructions 20M --seed 1 --json out/demo-gups.json

# A faster `ambulator`, by profile-guided optimisation: target/pgo/release/ambulator, after two release builds.
pgo: setup
	scripts/build-pgo.sh

# The tests of every crate, in a profile that is optimised where it simulates.
test: setup
	$(CARGO) test --locked

# The plugin that `ambulator capture` loads into qemu-user.
capture-plugin: setup
	CARGO_TARGET_DIR=$(TARGET_DIR)/capture-plugin $(CARGO) build --release --locked --manifest-path tools/capture-plugin/Cargo.toml

# libambulator for other simulators: headers, libraries, pkg-config and CMake files below PREFIX.
PREFIX ?= /usr/local
install: setup
	scripts/install-library.sh $(PREFIX)

# Installs it below a temporary prefix, and runs a small simulator with it.
test-library: setup $(AMBULATOR)
	scripts/test-library.sh dev $(AMBULATOR)

# Runs DRAMsim3 (C++, built with cmake) beside our DRAM, and records its results for the tests.
dram-reference: setup
	CARGO_TARGET_DIR=$(TARGET_DIR)/dram-reference $(CARGO) run --locked --manifest-path tools/dram-reference/Cargo.toml -- --record

# Compiles the kernels' algorithms (C++), captures them, and compares what they execute with the kernels.
kernel-density: setup $(AMBULATOR) capture-plugin
	AMBULATOR=$(AMBULATOR) AMBULATOR_CAPTURE_PLUGIN=$(TARGET_DIR)/capture-plugin/release/libambulator_capture.so tools/kernel-density/measure.py

# Host speed and memory of everything that has a goal, beside native programs; BENCH=--quick for small ones.
bench: setup $(AMBULATOR) $(TARGET_DIR)/native-speed
	python3 scripts/bench.py $(BENCH)

# GUPS, a pointer chase and BFS for the host itself.
$(TARGET_DIR)/native-speed: tools/native-speed/native.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -Wall -Wextra -D_POSIX_C_SOURCE=200809L $< -o $@

# The book, in docs/book/index.html.
doc: setup $(AMBULATOR)
	./scripts/doc.sh

lint: setup
	$(CARGO) fmt --all --check
	rustfmt --edition 2024 --check crates/designs/src/*/mod.rs
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Rust, a C compiler for the compression libraries, and nothing else.
setup:
	@./scripts/setup.sh

.PHONY: FORCE ambulator
ambulator: $(AMBULATOR)
$(AMBULATOR): FORCE
	$(CARGO) build --release --locked -p ambulator

ci:
	./.ci/run

clean:
	$(CARGO) clean
	rm -rf out docs/book
