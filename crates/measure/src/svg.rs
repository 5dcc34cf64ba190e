//! The few elements of SVG that a chart needs.

use std::fmt::Write;

/// Which end of a text is at its place.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A picture in the making.
pub struct Svg(String);

impl Svg {
    /// An empty picture on white ground.
    pub fn new(width: f64, height: f64) -> Self {
        let mut svg = Self(String::new());
        svg.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"Helvetica, Arial, sans-serif\">"
        ));
        svg.add(format_args!("<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"));
        svg
    }

    /// The text of the whole picture.
    pub fn finish(mut self) -> String {
        self.add(format_args!("</svg>"));
        self.0
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{element}");
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64, is_dashed: bool) {
        let dashes = dashes(is_dashed);
        self.add(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"{dashes}/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through all points.
    pub fn path(&mut self, points: &[(f64, f64)], colour: &str, is_dashed: bool) {
        let places: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dashes = dashes(is_dashed);
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\"{dashes}/>",
            places.join(" ")
        ));
    }

    /// A point: a disc, or a hollow one.
    pub fn mark(&mut self, (x, y): (f64, f64), colour: &str, is_hollow: bool) {
        let fill = if is_hollow { "#ffffff" } else { colour };
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        ));
    }

    /// A filled bar, from its upper left corner.
    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    /// A line of text.
    pub fn text(&mut self, x: f64, y: f64, size: f64, colour: &str, anchor: Anchor, text: &str) {
        let (anchor, text) = (anchor.name(), escaped(text));
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\" \
             text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// A line of bold text.
    pub fn heading(&mut self, x: f64, y: f64, size: f64, colour: &str, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"bold\" fill=\"{colour}\">{text}</text>"
        ));
    }

    /// Text that is read from below, around its middle.
    pub fn upright(&mut self, x: f64, y: f64, size: f64, colour: &str, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" font-size=\"{size}\" fill=\"{colour}\" \
             text-anchor=\"middle\">{text}</text>"
        ));
    }
}

fn dashes(is_dashed: bool) -> &'static str {
    if is_dashed { " stroke-dasharray=\"5 4\"" } else { "" }
}

/// Text that cannot be taken for markup, without what no XML may contain.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}
