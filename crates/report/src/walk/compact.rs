//! Many texts that are nearly the same, without what they share.
//!
//! A text is cut into pieces where its elements begin that differ from walk to walk. Of each piece, the numbers
//! are taken out; what is left is its form, which most walks share. Numbers that are the same wherever a form is
//! used go back into it.

use serde_json::{Value, json};
use std::collections::HashMap;

/// Before each of these a new piece begins.
const CUTS: [&str; 3] = ["<g class=\"s", "<li class=\"s", "<ol"];
/// Between the numbers of a piece. No number has it.
const BETWEEN: &str = "|";

/// The parts of a text before, between and after its numbers, and the numbers.
fn taken_apart(text: &str) -> (Vec<&str>, Vec<&str>) {
    let bytes = text.as_bytes();
    let (mut parts, mut numbers) = (Vec::new(), Vec::new());
    let (mut part, mut at) = (0, 0);
    while at < bytes.len() {
        // Hexadecimal digits after 0x or as an element's whole text, else decimal ones with point and commas.
        let whole = at > 0 && bytes[at - 1] == b'>' && {
            let length = bytes[at..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            length > 0 && bytes.get(at + length) == Some(&b'<')
        };
        if !whole && !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let begin = at;
        let prefixed = bytes[at..].starts_with(b"0x");
        let hexadecimal = whole || prefixed;
        at += if prefixed { 2 } else { 0 };
        let inside = |byte: u8| match hexadecimal {
            true => byte.is_ascii_hexdigit(),
            false => byte.is_ascii_digit() || byte == b'.' || byte == b',',
        };
        while at < bytes.len() && inside(bytes[at]) {
            at += 1;
        }
        parts.push(&text[part..begin]);
        numbers.push(&text[begin..at]);
        part = at;
    }
    parts.push(&text[part..]);
    (parts, numbers)
}

/// The pieces of a text.
fn pieces(text: &str) -> Vec<&str> {
    let mut cuts: Vec<usize> = CUTS.iter().flat_map(|cut| text.match_indices(cut).map(|(at, _)| at)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect()
}

/// A form while texts are being added: the numbers of its first use, and which of them differ elsewhere.
struct Form<'t> {
    parts: Vec<&'t str>,
    first: Vec<&'t str>,
    differs: Vec<bool>,
}

/// Texts in the least space, as JSON: `forms`, each the texts before, between and after its numbers, and
/// `texts`, each a list of forms' numbers, every one followed by its own numbers, if it has any, as one text.
pub(super) fn compact(texts: &[String]) -> Value {
    let mut forms: Vec<Form<'_>> = Vec::new();
    let mut known: HashMap<Vec<&str>, usize> = HashMap::new();
    let mut all: Vec<Vec<(usize, Vec<&str>)>> = Vec::with_capacity(texts.len());
    for text in texts {
        let mut own = Vec::new();
        for piece in pieces(text) {
            let (parts, numbers) = taken_apart(piece);
            let form = *known.entry(parts).or_insert_with_key(|parts| {
                forms.push(Form { parts: parts.clone(), first: numbers.clone(), differs: vec![false; numbers.len()] });
                forms.len() - 1
            });
            let Form { first, differs, .. } = &mut forms[form];
            for (at, number) in numbers.iter().enumerate() {
                differs[at] |= first[at] != *number;
            }
            own.push((form, numbers));
        }
        all.push(own);
    }
    let written: Vec<Vec<String>> = forms.iter().map(written).collect();
    let texts: Vec<Vec<Value>> = all
        .into_iter()
        .map(|own| {
            let mut values = Vec::new();
            for (form, numbers) in own {
                values.push(json!(form));
                let differ: Vec<&str> = numbers
                    .iter()
                    .zip(&forms[form].differs)
                    .filter(|(_, differs)| **differs)
                    .map(|(n, _)| *n)
                    .collect();
                if !differ.is_empty() {
                    values.push(json!(differ.join(BETWEEN)));
                }
            }
            values
        })
        .collect();
    json!({"forms": written, "texts": texts})
}

/// A form with the numbers in it that are always the same.
fn written(form: &Form<'_>) -> Vec<String> {
    let mut written = vec![form.parts[0].to_owned()];
    for (at, part) in form.parts.iter().enumerate().skip(1) {
        match (form.differs[at - 1], written.last_mut()) {
            (false, Some(last)) => {
                last.push_str(form.first[at - 1]);
                last.push_str(part);
            }
            _ => written.push((*part).to_owned()),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the page's script does.
    fn expanded(compact: &Value, text: usize) -> String {
        let mut html = String::new();
        let mut list = compact["texts"][text].as_array().unwrap().iter().peekable();
        while let Some(form) = list.next() {
            let parts = compact["forms"][form.as_u64().unwrap() as usize].as_array().unwrap();
            let numbers = list.next_if(|next| next.is_string()).map_or("", |next| next.as_str().unwrap());
            let mut numbers = numbers.split(BETWEEN);
            html.push_str(parts[0].as_str().unwrap());
            for part in &parts[1..] {
                html.push_str(numbers.next().unwrap());
                html.push_str(part.as_str().unwrap());
            }
        }
        html
    }

    #[test]
    fn texts_come_back_as_they_were_and_share_their_forms() {
        let text = |at: u64, rank: &str| {
            format!(
                "<p>at {at:#x}</p><ol><li class=\"s\" data-s=\"1\">0xff <code>{:016x}</code> {rank}, 1,234.5 or 12</li>\
                 <li class=\"s h\">é 3×4</li></ol>",
                at * 77
            )
        };
        let texts: Vec<String> = (0..50).map(|at| text(at * 4096, if at == 7 { "other" } else { "same" })).collect();
        let compact = compact(&texts);
        for (number, text) in texts.iter().enumerate() {
            assert_eq!(&expanded(&compact, number), text);
        }
        assert_eq!(compact["forms"].as_array().unwrap().len(), 5, "{:?}", compact["forms"]);
        let all: usize = texts.iter().map(String::len).sum();
        assert!(compact.to_string().len() * 2 < all, "{} of {all}", compact.to_string().len());
    }

    #[test]
    fn texts_without_numbers_and_without_cuts_are_forms() {
        let compact = compact(&["plain".into(), String::new(), "0x".into()]);
        assert_eq!(["plain", "", "0x"], [0, 1, 2].map(|text| expanded(&compact, text)).each_ref().map(String::as_str));
    }
}
