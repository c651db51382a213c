//! Tables of `mrc top` in which a number is whole or not there. A terminal that cuts the last digits of a number shows another
//! number.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Row, Table};

/// Letters of a column's head that are shown in any case.
const HEAD: u16 = 7;

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    head: &'static str,
    width: u16,
    is_number: bool,
    /// Where there is no room, the column with the highest rank goes first; 0 stays.
    rank: u8,
}

/// A column of words, which may be cut.
pub const fn words(head: &'static str, width: u16, rank: u8) -> Column {
    Column { head, width, is_number: false, rank }
}

/// A column of numbers.
pub const fn number(head: &'static str, width: u16, rank: u8) -> Column {
    Column { head, width, is_number: true, rank }
}

/// Rows under their columns.
pub struct Columns<'a> {
    columns: &'static [Column],
    rows: Vec<(Style, Vec<Span<'a>>)>,
}

impl<'a> Columns<'a> {
    /// Each row has a cell for each column.
    pub fn new(columns: &'static [Column], rows: impl Iterator<Item = (Style, Vec<Span<'a>>)>) -> Self {
        Self { columns, rows: rows.collect() }
    }

    /// The longest cell of a column.
    fn longest(&self, at: usize) -> u16 {
        let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(at));
        cells.map(|cell| cell.width() as u16).max().unwrap_or(0)
    }

    /// What a column takes where room is rare.
    fn narrow(&self, at: usize) -> u16 {
        let Column { head, width, is_number, .. } = self.columns[at];
        match is_number {
            true => self.longest(at).max(head.len() as u16),
            false => self.longest(at).max(HEAD.min(head.len() as u16)).min(width),
        }
    }

    fn wide(&self, at: usize) -> u16 {
        self.narrow(at).max(self.columns[at].width)
    }

    /// The columns that are shown in so much room, each with its width.
    fn fit(&self, room: u16) -> Vec<(usize, u16)> {
        let sum = |widths: &[(usize, u16)]| {
            widths.iter().map(|(_, width)| width).sum::<u16>() + (widths.len() as u16).saturating_sub(1)
        };
        let all = |width: &dyn Fn(usize) -> u16| (0..self.columns.len()).map(|at| (at, width(at))).collect::<Vec<_>>();
        let wide = all(&|at| self.wide(at));
        if sum(&wide) <= room {
            return wide;
        }
        let mut narrow = all(&|at| self.narrow(at));
        while sum(&narrow) > room
            && let Some(least) = narrow.iter().max_by_key(|(at, _)| self.columns[*at].rank).map(|(at, _)| *at)
            && self.columns[least].rank > 0
        {
            narrow.retain(|(at, _)| *at != least);
        }
        let left = room.saturating_sub(sum(&narrow));
        if let Some((at, width)) = narrow.last_mut() {
            *width = (*width + left).min(self.wide(*at));
        }
        narrow
    }

    /// Room in which no column goes.
    pub fn least_width(&self) -> u16 {
        (0..self.columns.len()).map(|at| self.narrow(at) + 1).sum::<u16>().saturating_sub(1)
    }

    /// Draws as many columns as there is room for, and leaves a gap at the right.
    pub fn draw(self, frame: &mut Frame<'_>, area: Rect, gap: u16, head: Style, block: Block<'a>) {
        let mut inner = block.inner(area);
        inner.width = inner.width.saturating_sub(gap);
        frame.render_widget(block, area);
        let shown = self.fit(inner.width);
        let columns = self.columns;
        let cell = |at: usize, text: Span<'a>| match columns[at].is_number {
            true => Line::from(text).right_aligned(),
            false => Line::from(text),
        };
        let heads = shown.iter().map(|(at, _)| cell(*at, Span::raw(columns[*at].head)));
        let heads = Row::new(heads.collect::<Vec<_>>()).style(head);
        let widths: Vec<Constraint> = shown.iter().map(|(_, width)| Constraint::Length(*width)).collect();
        let rows = self.rows.into_iter().map(|(style, cells)| {
            let seen = |at| shown.iter().any(|(shown, _)| *shown == at);
            let cells = cells.into_iter().enumerate().filter(|(at, _)| seen(*at));
            Row::new(cells.map(|(at, text)| cell(at, text)).collect::<Vec<_>>()).style(style)
        });
        let table = Table::new(rows.collect::<Vec<_>>(), widths).header(heads).column_spacing(1);
        frame.render_widget(table, inner);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    const COLUMNS: &[Column] =
        &[words("name", 10, 0), number("tx p/s", 8, 1), number("dropped", 7, 2), words("states of paths", 20, 3)];

    fn shown(width: u16) -> Vec<String> {
        let row = |name, tx, dropped| (Style::new(), [name, tx, dropped, "8/0/0/0"].map(Span::raw).to_vec());
        let rows = [row("0 p0", "7534", "0"), row("1 p1", "123456789", "12345678901")];
        let mut terminal = Terminal::new(TestBackend::new(width, 3)).unwrap();
        terminal
            .draw(|frame| {
                Columns::new(COLUMNS, rows.into_iter()).draw(frame, frame.area(), 0, Style::new(), Block::new());
            })
            .unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer.cell((x, y)).unwrap().symbol()).collect::<String>();
        (0..3).map(|y| line(y).trim_end().to_owned()).collect()
    }

    /// On 80 columns 7534 packets per second were 753.
    #[test]
    fn a_number_is_whole_or_not_there() {
        for width in 1..80 {
            let lines = shown(width);
            let allowed = ["0 p0", "7534", "0", "1 p1", "123456789", "12345678901", "8/0/0/0"];
            for word in lines[1..].iter().flat_map(|line| line.split_whitespace()).filter(|word| word.len() > 1) {
                assert!(allowed.contains(&word) || width < 8 || ["p0", "p1"].contains(&word), "{width}: {lines:?}");
            }
        }
        assert_eq!(
            shown(60),
            [
                "name          tx p/s     dropped states of paths",
                "0 p0            7534           0 8/0/0/0",
                "1 p1       123456789 12345678901 8/0/0/0",
            ]
        );
        assert_eq!(
            shown(34),
            [
                "name    tx p/s     dropped states",
                "0 p0      7534           0 8/0/0/0",
                "1 p1 123456789 12345678901 8/0/0/0",
            ]
        );
        assert_eq!(shown(26)[2], "1 p1 123456789 12345678901");
        assert_eq!(shown(20)[2], "1 p1 123456789");
        assert_eq!(shown(10)[2], "1 p1");
    }
}
