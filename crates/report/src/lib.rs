#![doc = include_str!("../README.md")]

mod answer;
mod cells;
mod charts;
mod input;
mod page;
mod plot;
mod published;
mod study;
mod theme;
mod vocabulary;
mod walk;

pub use answer::Answer;
pub use charts::{Chart, Form, Table, charts};
pub use input::{InputError, read};
pub use page::report;
pub use plot::{Format, PlotError, Plotted, plot};
pub use published::{published_charts, published_report};
pub use study::{Cell, Comparison, Design, Study};
pub use theme::{PaperWidth, for_notebook, for_paper, plain_config};
pub use vocabulary::terms;
pub use walk::{ShownDesign, walk_page, walk_slide};
