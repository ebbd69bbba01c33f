//! How figures look: the palette, and the configuration of page and paper.

use serde_json::{Value, json};

/// Colours that colour-blind people tell apart: of Okabe and Ito, without black and yellow, which are lost on
/// dark and on white paper, and after them of Tol's muted colours.
pub const PALETTE: [&str; 10] =
    ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C", "#999933", "#AA3377", "#44AA99"];
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
        let is_offset = spec["height"]["for"] == "offset";
        spec["height"] = if is_offset { json!({"step": 4.5, "for": "offset"}) } else { json!({"step": 10}) };
    } else {
        spec["height"] = json!(match width {
            PaperWidth::Column => 110,
            PaperWidth::Page => 130,
        });
    }
    spec["background"] = json!("white");
    spec["padding"] = json!(1);
    fit_legends(&mut spec, width);
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
            "orient": "top", "symbolSize": 40, "labelLimit": 220, "title": null, "offset": 4,
            "rowPadding": 1, "columnPadding": 6, "labelColor": "black", "padding": 0,
        })),
        "text": {"fontSize": 7, "color": "black"},
        "line": {"strokeWidth": 1},
        "rule": {"strokeWidth": 0.6, "color": "black"},
        "tick": {"color": "black"},
    });
    spec
}

/// As many columns of legends as fit: names are 4 points a character wide, and symbols need room.
fn fit_legends(spec: &mut Value, width: PaperWidth) {
    let columns = |domain: &Value| {
        let names = domain.as_array()?.iter().filter_map(Value::as_str);
        let longest = names.map(|name| name.chars().count()).max()? as u32;
        Some((width.points() / (4 * longest + 22)).max(1))
    };
    let fit = |encoding: &mut Value| {
        let Some(colour) = encoding.get_mut("color").filter(|colour| colour.is_object()) else { return };
        if let Some(columns) = columns(&colour["scale"]["domain"])
            && colour.get("legend").is_none_or(Value::is_object)
        {
            colour["legend"]["columns"] = columns.into();
        }
    };
    fit(&mut spec["encoding"]);
    if let Some(layers) = spec["layer"].as_array_mut() {
        layers.iter_mut().for_each(|layer| fit(&mut layer["encoding"]));
    } else if let Some(spec) = spec.as_object_mut() {
        spec.remove("layer");
    }
}

/// A figure for a notebook: by itself, on white.
pub fn for_notebook(spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["width"] = json!(640);
    spec["autosize"] = json!({"type": "fit-x", "contains": "padding"});
    spec["config"] = plain_config();
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
            "labelLimit": 360, "rowPadding": 4, "columnPadding": 18, "symbolStrokeWidth": 2,
        },
        "text": {"fontSize": 12, "color": ink},
        "rule": {"color": ink},
        "line": {"strokeWidth": 2},
        "tick": {"color": ink},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_for_papers_have_the_widths_of_columns_and_legends_that_fit() {
        let long = "page walks and look-ups served by the last-level cache";
        let of = |domain: Value| json!({"height": {"step": 22}, "encoding": {"color": {"scale": {"domain": domain}}}});
        let columns = |spec: &Value, width| for_paper(spec, width)["encoding"]["color"]["legend"]["columns"].clone();
        assert_eq!(columns(&of(json!([long, "b"])), PaperWidth::Column), 1);
        assert_eq!(columns(&of(json!([long, "b"])), PaperWidth::Page), 2);
        assert_eq!(columns(&of(json!(["radix", "thp"])), PaperWidth::Column), 5);
        let spec = for_paper(&of(json!(["a"])), PaperWidth::Column);
        assert_eq!((&spec["width"], &spec["config"]["axis"]["labelFontSize"]), (&json!(240), &json!(8)));
        assert!(spec.get("layer").is_none());
        let hidden = json!({"encoding": {"color": {"scale": {"domain": ["a"]}, "legend": null}}, "layer": []});
        assert_eq!(for_paper(&hidden, PaperWidth::Page)["encoding"]["color"]["legend"], Value::Null);
    }

    #[test]
    fn shades_go_from_light_to_dark() {
        assert_eq!((shade(0, 0, 2), shade(0, 1, 2)), ("#bebebe".to_owned(), "#6e6e6e".to_owned()));
        assert_ne!(style(0), style(10), "lines with one colour differ in their dash");
    }
}
