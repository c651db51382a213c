//! Tables as Parquet: one row group, plain encoding, no compression. What the format asks for and no more, because the
//! crates that write it bring some forty others.
//!
//! A file is `PAR1`, the pages of each column, the footer in Thrift's compact protocol, its length, `PAR1`. Columns of
//! numbers that may be missing say for each row whether there is one (definition levels).

/// Values of a column, one for each row.
pub(super) enum Column<'a> {
    Int(Vec<i64>),
    Float(Vec<Option<f64>>),
    Text(Vec<&'a str>),
    Bool(Vec<bool>),
}

/// Rows of a page.
const PAGE_ROWS: usize = 1 << 16;
const MAGIC: &[u8; 4] = b"PAR1";

/// Types of fields in Thrift's compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Encodings of Parquet.
const PLAIN: i64 = 0;
const RLE: i64 = 3;

impl Column<'_> {
    fn rows(&self) -> usize {
        match self {
            Self::Int(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::Bool(values) => values.len(),
        }
    }

    /// Number of Parquet's physical type.
    const fn kind(&self) -> i64 {
        match self {
            Self::Bool(_) => 0,
            Self::Int(_) => 2,
            Self::Float(_) => 5,
            Self::Text(_) => 6,
        }
    }

    const fn is_optional(&self) -> bool {
        matches!(self, Self::Float(_))
    }

    /// The rows from `first` on, up to `end`, as a page holds them.
    fn page(&self, first: usize, end: usize) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Int(values) => values[first..end].iter().for_each(|value| out.extend(value.to_le_bytes())),
            Self::Text(values) => {
                for text in &values[first..end] {
                    out.extend((text.len() as u32).to_le_bytes());
                    out.extend(text.as_bytes());
                }
            }
            Self::Bool(values) => {
                let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
                out.extend(values[first..end].chunks(8).map(byte));
            }
            Self::Float(values) => {
                let mut levels = Vec::new();
                for run in values[first..end].chunk_by(|a, b| a.is_some() == b.is_some()) {
                    varint(&mut levels, (run.len() as u64) << 1);
                    levels.push(u8::from(run[0].is_some()));
                }
                out.extend((levels.len() as u32).to_le_bytes());
                out.extend(levels);
                values[first..end].iter().flatten().for_each(|value| out.extend(value.to_le_bytes()));
            }
        }
        out
    }
}

/// A table of these columns, which have a value for each row.
pub(super) fn table(columns: &[(&str, Column<'_>)]) -> Vec<u8> {
    let rows = columns.first().map_or(0, |(_, column)| column.rows());
    let mut file = MAGIC.to_vec();
    let mut chunks = Vec::new();
    for (_, column) in columns {
        let start = file.len();
        for first in (0..rows).step_by(PAGE_ROWS) {
            let end = rows.min(first + PAGE_ROWS);
            let page = column.page(first, end);
            let mut head = Thrift::default();
            head.int(1, I32, 0);
            head.int(2, I32, page.len() as i64);
            head.int(3, I32, page.len() as i64);
            head.nested(5, |data| {
                data.int(1, I32, (end - first) as i64);
                data.int(2, I32, PLAIN);
                data.int(3, I32, RLE);
                data.int(4, I32, RLE);
            });
            file.extend(head.end());
            file.extend(page);
        }
        chunks.push((start as i64, (file.len() - start) as i64));
    }
    let footer = footer(columns, rows as i64, &chunks);
    file.extend(&footer);
    file.extend((footer.len() as u32).to_le_bytes());
    file.extend(MAGIC);
    file
}

fn footer(columns: &[(&str, Column<'_>)], rows: i64, chunks: &[(i64, i64)]) -> Vec<u8> {
    let mut meta = Thrift::default();
    meta.int(1, I32, 1);
    meta.list(2, STRUCT, columns.len() + 1);
    let mut root = Thrift::default();
    root.binary(4, "schema");
    root.int(5, I32, columns.len() as i64);
    meta.out.extend(root.end());
    for (name, column) in columns {
        let mut element = Thrift::default();
        element.int(1, I32, column.kind());
        element.int(3, I32, i64::from(column.is_optional()));
        element.binary(4, name);
        if matches!(column, Column::Text(_)) {
            // UTF-8.
            element.int(6, I32, 0);
        }
        meta.out.extend(element.end());
    }
    meta.int(3, I64, rows);
    meta.list(4, STRUCT, 1);
    let mut group = Thrift::default();
    group.list(1, STRUCT, columns.len());
    for ((name, column), &(start, bytes)) in columns.iter().zip(chunks) {
        let mut chunk = Thrift::default();
        chunk.int(2, I64, start);
        chunk.nested(3, |data| {
            data.int(1, I32, column.kind());
            data.list(2, I32, 2);
            [PLAIN, RLE].iter().for_each(|&encoding| varint(&mut data.out, zigzag(encoding)));
            data.list(3, BINARY, 1);
            data.text(name);
            data.int(4, I32, 0);
            data.int(5, I64, rows);
            data.int(6, I64, bytes);
            data.int(7, I64, bytes);
            data.int(9, I64, start);
        });
        group.out.extend(chunk.end());
    }
    group.int(2, I64, chunks.iter().map(|(_, bytes)| bytes).sum());
    group.int(3, I64, rows);
    meta.out.extend(group.end());
    meta.binary(6, concat!("mrc ", env!("CARGO_PKG_VERSION")));
    meta.end()
}

/// A struct in Thrift's compact protocol.
#[derive(Default)]
struct Thrift {
    out: Vec<u8>,
    last: u8,
}

impl Thrift {
    fn field(&mut self, id: u8, kind: u8) {
        self.out.push((id - self.last) << 4 | kind);
        self.last = id;
    }

    fn int(&mut self, id: u8, kind: u8, value: i64) {
        self.field(id, kind);
        varint(&mut self.out, zigzag(value));
    }

    fn text(&mut self, text: &str) {
        varint(&mut self.out, text.len() as u64);
        self.out.extend(text.as_bytes());
    }

    fn binary(&mut self, id: u8, text: &str) {
        self.field(id, BINARY);
        self.text(text);
    }

    /// The head of a list; its elements follow.
    fn list(&mut self, id: u8, kind: u8, len: usize) {
        self.field(id, LIST);
        match u8::try_from(len) {
            Ok(short @ 0..15) => self.out.push(short << 4 | kind),
            _ => {
                self.out.push(0xf0 | kind);
                varint(&mut self.out, len as u64);
            }
        }
    }

    fn nested(&mut self, id: u8, fill: impl FnOnce(&mut Self)) {
        self.field(id, STRUCT);
        let mut inner = Self::default();
        fill(&mut inner);
        self.out.extend(inner.end());
    }

    fn end(mut self) -> Vec<u8> {
        self.out.push(0);
        self.out
    }
}

const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte, as `pyarrow.parquet.read_table` reads it: one column, three rows, the second without a value.
    #[test]
    fn a_small_table_is_what_the_format_says() {
        let file = table(&[("x", Column::Float(vec![Some(1.0), None, Some(2.0)]))]);
        let mut page = vec![6, 0, 0, 0, 2, 1, 2, 0, 2, 1];
        page.extend([1.0f64, 2.0].iter().flat_map(|value| value.to_le_bytes()));
        let mut expected = b"PAR1".to_vec();
        // Type, sizes, then the head of a data page: values, plain, levels run-length encoded.
        expected.extend([0x15, 0, 0x15, 52, 0x15, 52, 0x2c, 0x15, 6, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0]);
        expected.extend(page);
        assert_eq!(file[..expected.len()], expected);
        let footer = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap()) as usize;
        assert_eq!((file.len(), &file[file.len() - 4..]), (expected.len() + footer + 8, &b"PAR1"[..]));
        // Version 1, two schema elements, of which the first is the root.
        assert_eq!(file[expected.len()..][..14], *b"\x15\x02\x19\x2c\x48\x06schema\x15\x02");
    }

    #[test]
    fn truth_values_lie_in_bits_and_pages_hold_a_part_of_the_rows_each() {
        let odd = |count: usize| Column::Bool((0..count).map(|row| row % 2 == 1).collect());
        assert_eq!(odd(10).page(0, 10), [0b1010_1010, 0b10]);
        let pages = |count| table(&[("odd", odd(count))]).len();
        let (one, two) = (pages(PAGE_ROWS), pages(PAGE_ROWS + 8));
        assert!((two - one) > 1 + 10, "{one} and {two}: a second page has a head of its own");
    }
}
