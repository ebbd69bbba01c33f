//! Settings of programs that have no effect beside others.

use ambulator_workloads::{ProgramRequest, program};
use serde_json::Value;

/// Why the setting `key` of the requested program (without the program's name, such as `footprint`) has no
/// effect, as a sentence's end; `None` if it may have one.
pub fn unused_by_program(request: &ProgramRequest, key: &str) -> Option<String> {
    let defaults = program(&request.name)?.default_settings();
    let of_request = Value::Object(request.settings.clone());
    let value = |key: &str| {
        let pointer = format!("/{}", key.replace('.', "/"));
        of_request.pointer(&pointer).or_else(|| defaults.pointer(&pointer)).cloned().unwrap_or_default()
    };
    let is = |key: &str, name: &str| value(key) == name;
    let input = value("graph.input");
    if let Some(file) = input.as_str().filter(|file| !file.is_empty())
        && (key == "footprint" || key.starts_with("graph.") && key != "graph.input")
    {
        return Some(format!("`graph.input` is \"{file}\", which decides about the graph"));
    }
    match key {
        "footprint" => {
            let vertices = value("graph.vertices").as_u64().filter(|vertices| *vertices > 0)?;
            Some(format!("`graph.vertices` is {vertices}, which decides about the size; 0 takes the footprint"))
        }
        "edge_list" if is("layout", "property") => Some("`layout` is \"property\"".into()),
        "edge_list" if is("graph.storage", "streaming") => {
            Some("`graph.storage` is \"streaming\": the edges of a computed graph come from a file".into())
        }
        _ if key.starts_with("property.") && is("layout", "csr") => Some("`layout` is \"csr\"".into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_another_setting_decides_has_no_effect() {
        let request = |name: &str, settings: Value| ProgramRequest {
            name: name.into(),
            settings: settings.as_object().cloned().unwrap_or_default(),
            ..ProgramRequest::default()
        };
        for (settings, key, because) in [
            (json!({ "graph": { "vertices": 1000 } }), "footprint", "`graph.vertices` is 1000"),
            (json!({ "graph": { "input": "g.mtx" } }), "graph.edge_factor", "`graph.input` is \"g.mtx\""),
            (json!({ "graph": { "input": "g.mtx" } }), "footprint", "`graph.input` is \"g.mtx\""),
            (json!({ "layout": "csr" }), "property.vertex_bytes", "`layout` is \"csr\""),
            (json!({}), "edge_list", "`layout` is \"property\""),
            (json!({ "layout": "csr", "graph": { "storage": "streaming" } }), "edge_list", "come from a file"),
        ] {
            let why = unused_by_program(&request("bfs", settings), key).unwrap_or_default();
            assert!(why.contains(because), "{key}: {why}");
        }
        for (name, settings, key) in [
            ("bfs", json!({}), "footprint"),
            ("bfs", json!({ "layout": "csr" }), "edge_list"),
            ("bfs", json!({}), "property.vertex_bytes"),
            ("gups", json!({}), "footprint"),
            ("a.trace", json!({}), "footprint"),
        ] {
            assert_eq!(unused_by_program(&request(name, settings), key), None, "{name} {key}");
        }
    }
}
