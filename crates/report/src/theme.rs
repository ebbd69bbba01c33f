//! How figures look: the palette, and the configuration of page and paper.

use serde_json::{Value, json};

/// Colours that colour-blind people tell apart (Okabe and Ito, without black and yellow, which are lost on
/// dark and on white paper).
pub const PALETTE: [&str; 7] = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C"];
/// Faster, slower, and no difference.
pub const OUTCOMES: [(&str, &str); 3] =
    [("faster", "#0072B2"), ("slower", "#D55E00"), ("no difference within the 95% interval", "#8C8C8C")];
/// Dashes that tell lines apart where there are more than colours.
const DASHES: [[u32; 2]; 4] = [[1, 0], [6, 3], [2, 2], [9, 2]];

/// The colour and the dash of the `number`th line or bar.
pub fn style(number: usize) -> (&'static str, [u32; 2]) {
    (PALETTE[number % PALETTE.len()], DASHES[number / PALETTE.len() % DASHES.len()])
}

/// The `number`th of `of` shades of a family of colours: instructions, translation, data, stores, operating
/// system. Families differ in hue and in lightness, shades within a family in lightness.
pub fn shade(family: usize, number: usize, of: usize) -> String {
    // Lightest and darkest of each family.
    const FAMILIES: [([u32; 3], [u32; 3]); 5] = [
        ([190, 190, 190], [110, 110, 110]),
        ([253, 208, 120], [178, 76, 2]),
        ([158, 202, 233], [20, 90, 160]),
        ([102, 194, 164], [0, 109, 84]),
        ([204, 158, 196], [122, 50, 112]),
    ];
    let (light, dark) = FAMILIES[family % FAMILIES.len()];
    let share = if of > 1 { number as f64 / (of - 1) as f64 } else { 0.5 };
    let mix = |at: usize| (f64::from(light[at]) + share * (f64::from(dark[at]) - f64::from(light[at]))).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// Widths of a paper of two columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperWidth {
    /// One column: 3.33 inches.
    Column,
    /// The whole page: 7 inches.
    Page,
}

impl PaperWidth {
    /// Both.
    pub const ALL: [PaperWidth; 2] = [PaperWidth::Column, PaperWidth::Page];

    /// Points (1/72 inch).
    pub fn points(self) -> u32 {
        match self {
            PaperWidth::Column => 240,
            PaperWidth::Page => 504,
        }
    }

    /// In names of files.
    pub fn name(self) -> &'static str {
        match self {
            PaperWidth::Column => "column",
            PaperWidth::Page => "page",
        }
    }
}

/// A figure for a paper: the specification with its width in points, 8-point text, and colours of print.
pub fn for_paper(spec: &Value, width: PaperWidth) -> Value {
    let mut spec = spec.clone();
    spec["width"] = json!(width.points());
    spec["autosize"] = json!({"type": "fit-x", "contains": "padding"});
    if spec["height"]["step"].is_number() {
        spec["height"] = json!({"step": 12});
    } else {
        spec["height"] = json!(match width {
            PaperWidth::Column => 110,
            PaperWidth::Page => 130,
        });
    }
    spec["background"] = json!("white");
    spec["padding"] = json!(1);
    let columns = match width {
        PaperWidth::Column => 2,
        PaperWidth::Page => 4,
    };
    let text = json!({"labelFontSize": 8, "titleFontSize": 8, "titleFontWeight": "normal"});
    let with = |more: Value| {
        let mut all = text.as_object().cloned().unwrap_or_default();
        all.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(all)
    };
    spec["config"] = json!({
        "font": "Helvetica, Arial, Liberation Sans, sans-serif",
        "view": {"stroke": null},
        "axis": with(json!({
            "gridColor": "#dddddd", "gridWidth": 0.5, "domainColor": "#444444", "domainWidth": 0.5,
            "tickColor": "#444444", "tickWidth": 0.5, "tickSize": 3, "labelLimit": 120, "titlePadding": 4,
            "labelColor": "black", "titleColor": "black",
        })),
        "legend": with(json!({
            "orient": "top", "columns": columns, "symbolSize": 40, "labelLimit": 150, "title": null, "offset": 4,
            "rowPadding": 1, "columnPadding": 6, "labelColor": "black", "padding": 0,
        })),
        "text": {"fontSize": 7, "color": "black"},
        "line": {"strokeWidth": 1},
        "rule": {"strokeWidth": 0.6, "color": "black"},
        "tick": {"color": "black"},
    });
    spec
}

/// The configuration of figures in a page: colours are the page's CSS variables, so that figures follow its
/// light or dark appearance, and print.
pub fn page_config() -> Value {
    config("var(--ink)", "var(--faint)")
}

/// The configuration of figures by themselves, on white.
pub fn plain_config() -> Value {
    let mut config = config("#1a1a1a", "#dddddd");
    config["background"] = json!("white");
    config
}

fn config(ink: &str, faint: &str) -> Value {
    json!({
        "background": "transparent",
        "font": "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif",
        "view": {"stroke": null},
        "axis": {
            "labelFontSize": 13, "titleFontSize": 13, "titleFontWeight": "normal", "labelColor": ink, "titleColor": ink,
            "gridColor": faint, "domainColor": faint, "tickColor": faint, "titlePadding": 8,
        },
        "legend": {
            "orient": "bottom", "title": null, "labelFontSize": 13, "labelColor": ink, "symbolSize": 110,
            "labelLimit": 280, "rowPadding": 4, "columnPadding": 18, "symbolStrokeWidth": 2,
        },
        "text": {"fontSize": 12, "color": ink},
        "rule": {"color": ink},
        "line": {"strokeWidth": 2},
        "tick": {"color": ink},
    })
}
