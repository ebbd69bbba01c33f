//! Places in structures, drawn.

use super::draw::{Drawing, Font, fitting, width_of};
use super::grouped;
use ambulator_base::watch::Shape;

/// A strip of this many parts shows each of them; a longer one only the part that is touched.
const FEW: u64 = 16;

/// The height of a place's drawing in a panel of that width.
pub(super) fn height(shape: &Shape, width: f64) -> f64 {
    match shape {
        Shape::TreeEntry { .. } => 56.0,
        Shape::Bucket { .. } => 74.0,
        Shape::ChainNode { .. } => 42.0,
        Shape::Gapped { .. } => 68.0,
        Shape::Model { .. } if width >= 380.0 => 96.0,
        Shape::Model { .. } => 52.0,
        Shape::Ranges { .. } => 68.0,
        Shape::Ways { used, .. } if used.is_empty() => 18.0,
        Shape::Ways { .. } => 56.0,
        Shape::Counter { .. } => 38.0,
        Shape::Interval { .. } => 46.0,
        Shape::Candidates { shares } => 18.0 * shares.len() as f64,
    }
}

/// Draws a place, from a point on, in a width.
pub(super) fn draw(to: &mut Drawing, shape: &Shape, at: [f64; 2], width: f64) {
    match shape {
        Shape::TreeEntry { index, entries, low_bit } => tree_entry(to, at, width, [*index, *entries, *low_bit]),
        Shape::Bucket { way, ways, bucket, buckets, found } => {
            self::bucket(to, at, width, [*way, *ways, *bucket, *buckets], *found);
        }
        Shape::ChainNode { found, last } => chain_node(to, at, width, *found, *last),
        Shape::Gapped { slots, predicted, found, beyond } => gapped(to, at, width, slots, *predicted, *found, *beyond),
        Shape::Model { slope, intercept, key, output, leaf } => {
            model(to, at, width, [*slope, *intercept], [*key, *output], *leaf);
        }
        Shape::Ranges { ranges, range, child } => self::ranges(to, at, width, ranges, *range, *child),
        Shape::Ways { set, sets, ways, first, used, way } => {
            strip(to, [at[0], at[1] + 2.0], width.min(1.0 + 0.42 * width), *set, *sets);
            let x = at[0] + 0.42 * width + 10.0;
            let text =
                if *sets > 1 { format!("set {} of {}", grouped(*set), grouped(*sets)) } else { "one set".into() };
            to.text(Font::Soft, [x, at[1] + 13.0], width - (x - at[0]), &text);
            if !used.is_empty() {
                self::ways(to, [at[0], at[1] + 24.0], width, [*ways, *first], used, *way);
            }
        }
        Shape::Counter { index, counters, value } => {
            strip(to, at, width, *index, *counters);
            let text = format!("counter {index} of {counters}: {value} pages of the set");
            to.text(Font::Text, [at[0], at[1] + 32.0], width, &text);
        }
        Shape::Interval { base, limit, at: point } => interval(to, at, width, [*base, *limit, *point]),
        Shape::Candidates { shares } => candidates(to, at, width, shares),
    }
}

/// A strip of parts, with one of them lit.
fn strip(to: &mut Drawing, [x, y]: [f64; 2], width: f64, lit: u64, parts: u64) {
    let parts = parts.max(1);
    to.rect("cell", [x, y, width, 14.0]);
    let part = width / parts as f64;
    if parts <= FEW {
        for number in 1..parts {
            to.line("axis", [x + part * number as f64, y, x + part * number as f64, y + 14.0]);
        }
    }
    let wide = part.max(4.0);
    let left = (x + part * lit.min(parts - 1) as f64).min(x + width - wide);
    to.rect("lit", [left, y, wide, 14.0]);
}

fn tree_entry(to: &mut Drawing, [x, y]: [f64; 2], width: f64, [index, entries, low_bit]: [u64; 3]) {
    let high = low_bit + u64::from(entries.max(2).ilog2()) - 1;
    let long =
        format!("bits {high} to {low_bit} of the address select entry {} of {}", grouped(index), grouped(entries));
    let short = format!("bits {high} to {low_bit}: {} of {}", grouped(index), grouped(entries));
    let fits = width_of(&long, Font::Text) <= width;
    to.text(Font::Text, [x, y + 12.0], width, if fits { &long } else { &short });
    strip(to, [x, y + 22.0], width, index, entries);
    to.text(Font::Small, [x, y + 49.0], 60.0, "0");
    let last = grouped(entries - 1);
    to.ending(Font::Small, [x + width, y + 49.0], 90.0, &last);
    // The number of the entry below it, where it does not cover the ends.
    let middle = x + width * (index as f64 + 0.5) / entries as f64;
    let own = grouped(index);
    let half = width_of(&own, Font::Mono) / 2.0;
    let free = [x + 14.0 + half, x + width - width_of(&last, Font::Small) - 8.0 - half];
    if free[0] < free[1] {
        to.centred(Font::Mono, [middle.clamp(free[0], free[1]), y + 50.0], 200.0, &own);
    }
}

fn bucket(to: &mut Drawing, [x, y]: [f64; 2], width: f64, numbers: [u64; 4], found: bool) {
    let [way, ways, bucket, buckets] = numbers;
    let tall = 68.0;
    to.rect("cell", [x, y, 26.0, tall]);
    let part = tall / buckets.max(1) as f64;
    let high = part.max(4.0);
    let top = (y + part * bucket as f64).min(y + tall - high);
    to.rect("lit", [x, top, 26.0, high]);
    let text = x + 52.0;
    to.line("rule", [x + 26.0, top + high / 2.0, text - 4.0, y + 38.0]);
    let room = width - 52.0;
    let table = if ways > 1 { format!("way {way} of {ways}") } else { "one table".to_owned() };
    to.text(Font::Text, [text, y + 14.0], room, &table);
    to.text(Font::Mono, [text, y + 34.0], room, &format!("slot {}", grouped(bucket)));
    to.text(Font::Soft, [text, y + 50.0], room, &format!("of {}", grouped(buckets)));
    verdict(to, [text, y + 67.0], room, found, if found { "has it" } else { "does not have it" });
}

/// A mark and a word for whether what is sought is here.
fn verdict(to: &mut Drawing, [x, y]: [f64; 2], width: f64, found: bool, says: &str) {
    to.open(if found { "class=\"good\"" } else { "class=\"bad\"" });
    to.dot(if found { "good" } else { "bad" }, [x + 5.0, y - 4.5]);
    to.close();
    to.text(Font::Text, [x + 16.0, y], width - 16.0, says);
}

fn chain_node(to: &mut Drawing, [x, y]: [f64; 2], width: f64, found: bool, last: bool) {
    let half = (width / 2.0 - 30.0).min(220.0);
    to.line("rule", [x, y + 18.0, x + 18.0, y + 18.0]);
    to.tip("tip", [x + 24.0, y + 18.0], true);
    to.rect(if found { "lit" } else { "held" }, [x + 26.0, y + 4.0, half, 28.0]);
    to.centred(
        Font::Text,
        [x + 26.0 + half / 2.0, y + 23.0],
        half,
        if found { "has the page" } else { "another block" },
    );
    let end = x + 26.0 + half;
    if last {
        to.text(Font::Soft, [end + 10.0, y + 23.0], width - half - 36.0, "the chain ends");
    } else {
        to.line("rule", [end, y + 18.0, end + 24.0, y + 18.0]);
        to.tip("tip", [end + 30.0, y + 18.0], true);
        to.text(Font::Soft, [end + 36.0, y + 23.0], width - half - 62.0, "next node");
    }
}

#[allow(clippy::too_many_arguments)]
fn gapped(
    to: &mut Drawing,
    [x, y]: [f64; 2],
    width: f64,
    slots: &[Option<u64>],
    predicted: u64,
    found: Option<u64>,
    beyond: u64,
) {
    let wide = width / slots.len().max(1) as f64;
    let middle = x + wide * (predicted as f64 + 0.5);
    if beyond == 0 {
        to.tip("tip", [middle, y + 20.0], false);
        let label = "the model's slot";
        let half = width_of(label, Font::Small) / 2.0;
        to.centred(Font::Small, [middle.clamp(x + half, (x + width - half).max(x + half)), y + 9.0], width, label);
    } else {
        to.text(Font::Small, [x, y + 14.0], width, &format!("{beyond} lines searched before this one"));
    }
    for (number, slot) in slots.iter().enumerate() {
        let left = x + wide * number as f64;
        let class = match slot {
            _ if found == Some(number as u64) => "lit",
            Some(_) => "held",
            None => "gap",
        };
        to.rect(class, [left + 1.0, y + 22.0, wide - 2.0, 26.0]);
        let text = slot.map_or("gap".to_owned(), |tag| format!("{tag:x}"));
        let font = if slot.is_some() { Font::Mono } else { Font::Small };
        to.centred(font, [left + wide / 2.0, y + 39.0], wide, &text);
    }
    let text = match found {
        Some(slot) if beyond == 0 && slot == predicted => "the page is where the model says".to_owned(),
        Some(slot) if beyond == 0 => {
            format!("the page is {} slots from where the model says, in the same line", slot.abs_diff(predicted))
        }
        Some(_) => "the page is in this line".to_owned(),
        None => "the page is not in this line".to_owned(),
    };
    to.text(Font::Text, [x, y + 64.0], width, &text);
}

fn model(to: &mut Drawing, [x, y]: [f64; 2], width: f64, line: [f64; 2], [key, output]: [u64; 2], leaf: bool) {
    let [slope, intercept] = line;
    let plot = if width >= 380.0 { 150.0 } else { 0.0 };
    if plot > 0.0 {
        let (floor, across) = (y + 82.0, plot * 0.62);
        to.line("axis", [x, floor, x + plot, floor]);
        to.line("axis", [x, y + 4.0, x, floor]);
        to.line("rule", [x, floor - 12.0, x + plot, y + 8.0]);
        let point = [x + across, floor - 12.0 - 62.0 * 0.62];
        to.line("axis", [point[0], floor, point[0], point[1]]);
        to.line("axis", [x, point[1], point[0], point[1]]);
        to.dot("tip", point);
        to.centred(Font::Small, [x + across, floor + 13.0], plot, "page");
        to.text(Font::Small, [x + 4.0, point[1] - 4.0], 60.0, if leaf { "slot" } else { "node" });
    }
    let (left, room) =
        (x + if plot > 0.0 { plot + 20.0 } else { 0.0 }, width - if plot > 0.0 { plot + 20.0 } else { 0.0 });
    let what = if leaf { "slot" } else { "child" };
    to.text(Font::Soft, [left, y + 13.0], room, &format!("{what} = slope × page + intercept"));
    let product = format!("{} × {} + {}", significant(slope), grouped(key), significant(intercept));
    to.text(Font::Mono, [left, y + 32.0], room, &product);
    to.text(Font::Mono, [left, y + 50.0], room, &format!("= {}", grouped(output)));
    if plot > 0.0 && leaf {
        to.text(Font::Soft, [left, y + 68.0], room, &format!("8 bytes each: at {:#x}", output.wrapping_mul(8)));
    }
}

/// A number with at most four digits behind the point.
fn significant(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn ranges(to: &mut Drawing, [x, y]: [f64; 2], width: f64, all: &[[u64; 2]], range: Option<u64>, child: Option<u64>) {
    if all.is_empty() {
        to.text(Font::Text, [x, y + 14.0], width, "the node is empty");
        return;
    }
    let gap = 16.0;
    let wide = (width - gap * (all.len() + 1) as f64) / all.len() as f64;
    for (number, [base, limit]) in all.iter().enumerate() {
        let left = x + gap + (wide + gap) * number as f64;
        to.rect(if range == Some(number as u64) { "lit" } else { "held" }, [left, y + 2.0, wide, 38.0]);
        to.centred(Font::Mono, [left + wide / 2.0, y + 17.0], wide, &format!("{base:x}"));
        to.centred(Font::Mono, [left + wide / 2.0, y + 33.0], wide, &format!("{limit:x}"));
    }
    if let Some(child) = child {
        let middle = x + gap / 2.0 + (wide + gap) * child as f64;
        to.line("rule", [middle, y + 2.0, middle, y + 42.0]);
        to.tip("tip", [middle, y + 50.0], false);
    }
    let text = match (range, child) {
        (Some(range), _) => format!("range {range} has the page"),
        (None, Some(child)) => format!("no range has it: go on with child {child}"),
        (None, None) => "no range has it, and this is a leaf".to_owned(),
    };
    to.text(Font::Text, [x, y + 64.0], width, &text);
}

fn ways(to: &mut Drawing, [x, y]: [f64; 2], width: f64, [ways, first]: [u64; 2], used: &[bool], way: Option<u64>) {
    let wide = (width / used.len() as f64).min(70.0);
    for (number, used) in used.iter().enumerate() {
        let own = first + number as u64;
        let class = match (way == Some(own), used) {
            (true, _) => "lit",
            (false, true) => "held",
            (false, false) => "gap",
        };
        to.rect(class, [x + wide * number as f64 + 1.0, y, wide - 2.0, 16.0]);
        if wide > 14.0 {
            to.centred(Font::Small, [x + wide * (number as f64 + 0.5), y + 12.0], wide, &own.to_string());
        }
    }
    let held = used.iter().filter(|used| **used).count();
    let text = match way {
        Some(way) => format!("way {way} of {ways} has the page"),
        None => format!("{held} of {} ways are in use, none has the page", used.len()),
    };
    to.text(Font::Text, [x, y + 30.0], width, &text);
}

fn interval(to: &mut Drawing, [x, y]: [f64; 2], width: f64, [base, limit, point]: [u64; 3]) {
    let length = limit.saturating_sub(base).max(1) as f64;
    let (left, wide) = (x + 0.06 * width, 0.88 * width);
    to.line("axis", [x, y + 21.0, x + width, y + 21.0]);
    let inside = (base..limit).contains(&point);
    to.rect(if inside { "lit" } else { "held" }, [left, y + 14.0, wide, 14.0]);
    let share = if point < base { -0.04 } else { (point.saturating_sub(base) as f64 / length).min(1.04) };
    let middle = left + wide * share;
    to.tip("tip", [middle, y + 14.0], false);
    let own = format!("{point:x}");
    let half = width_of(&own, Font::Small) / 2.0 + 10.0;
    let beside = if middle + 2.0 * half > x + width { middle - half } else { middle + half };
    to.centred(Font::Small, [beside, y + 10.0], 2.0 * half, &own);
    to.text(Font::Small, [left, y + 42.0], wide / 2.0, &format!("{base:x}"));
    to.ending(Font::Small, [left + wide, y + 42.0], wide / 2.0, &format!("{limit:x}"));
}

fn candidates(to: &mut Drawing, [x, y]: [f64; 2], width: f64, shares: &[(String, f64)]) {
    for (number, (name, share)) in shares.iter().enumerate() {
        let top = y + 18.0 * number as f64;
        let label = (width * 0.45).min(width_of(name, Font::Text));
        to.text(Font::Text, [x, top + 12.0], width * 0.45, &fitting(name, Font::Text, label + 8.0));
        let (left, wide) = (x + width * 0.47, width * 0.38);
        to.rect("cell", [left, top + 1.0, wide, 13.0]);
        to.rect("lit", [left, top + 1.0, wide * share.clamp(0.0, 1.0), 13.0]);
        to.text(Font::Text, [left + wide + 6.0, top + 12.0], width * 0.15, &format!("{:.0}%", 100.0 * share));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(shape: &Shape, width: f64) -> String {
        let mut to = Drawing::default();
        draw(&mut to, shape, [0.0, 0.0], width);
        to.svg
    }

    #[test]
    fn the_entry_that_is_touched_is_lit_at_its_place() {
        let svg = drawn(&Shape::TreeEntry { index: 256, entries: 512, low_bit: 12 }, 512.0);
        assert!(svg.contains("bits 20 to 12 of the address select entry 256 of 512"), "{svg}");
        assert!(svg.contains("<rect class=\"lit\" x=\"256\""), "{svg}");
        let narrow = drawn(&Shape::TreeEntry { index: 511, entries: 512, low_bit: 12 }, 140.0);
        assert!(narrow.contains("bits 20 to 12: 511 of") && narrow.contains("x=\"136\""), "{narrow}");
    }

    #[test]
    fn gaps_slots_and_the_prediction_differ() {
        let slots = vec![Some(0x7dd), None, Some(0x7df)];
        let gapped =
            |predicted, found, beyond| drawn(&Shape::Gapped { slots: slots.clone(), predicted, found, beyond }, 300.0);
        let right = gapped(2, Some(2), 0);
        assert!(
            right.contains("where the model says") && right.contains(">7df<") && right.contains(">gap<"),
            "{right}"
        );
        assert_eq!((right.matches("class=\"lit\"").count(), right.matches("class=\"gap\"").count()), (1, 1));
        assert!(gapped(0, Some(2), 0).contains("2 slots from where the model says"));
        assert!(gapped(0, None, 2).contains("2 lines searched before"));
    }

    #[test]
    fn nothing_is_drawn_outside_of_its_width() {
        let shapes = [
            Shape::TreeEntry { index: (1 << 18) - 1, entries: 1 << 18, low_bit: 12 },
            Shape::Bucket { way: 2, ways: 3, bucket: 16383, buckets: 16384, found: true },
            Shape::Ways { set: 127, sets: 128, ways: 16, first: 0, used: vec![true; 16], way: Some(15) },
            Shape::Counter { index: 101, counters: 102, value: 16 },
            Shape::Interval { base: 5, limit: 6, at: 5 },
            Shape::Ranges { ranges: vec![[1, 2]; 4], range: None, child: Some(4) },
            Shape::ChainNode { found: false, last: false },
            Shape::Candidates { shares: vec![("tier 1".into(), 1.0)] },
        ];
        for shape in shapes {
            for width in [140.0, 600.0] {
                let svg = drawn(&shape, width);
                for rect in svg.split("<rect ").skip(1) {
                    let number = |name: &str| -> f64 {
                        let rest = &rect[rect.find(&format!(" {name}=\"")).unwrap() + name.len() + 3..];
                        rest[..rest.find('"').unwrap()].parse().unwrap()
                    };
                    assert!(number("x") >= 0.0 && number("x") + number("width") <= width + 0.2, "{shape:?}: {rect}");
                }
            }
        }
    }
}
