//! Live update: the state of an endpoint as an image, so that other firmware goes on with the same queue pairs. Owns the order
//! and the bounds of an image; how a value is written is `image`'s, and which fields a struct has stands beside the struct.
//!
//! ```text
//!  image  = record ... record               record = length (2 bytes), body
//!  bodies = head | scalars ... | table slot, its rings in pieces of 16 | ... | end: number of records, checksum
//! ```
//!
//! One walk serves both directions (`walk`): [`Endpoint::export`] writes what it passes, [`Import`] fills a fresh endpoint. Its
//! place is a [`Cursor`], so that a call handles as much as its buffer holds and the next one goes on. Caches, templates, links
//! and indices are not stored: they are rebuilt from what is, in the same order, so that the endpoint goes on as it would have.

mod walk;

use self::walk::{Cursor, Left, Table};
use super::Endpoint;
use crate::{
    EndpointConfig, ImageError, Storage,
    error::ConfigError,
    image::{Checksum, FORMAT, Reader, Stored, Writer},
};

const MAGIC: u64 = u64::from_le_bytes(*b"MRCIMAGE");
/// How far an export has come. Give the same one to every call of [`Endpoint::export`] until it is done.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    at: Cursor,
    sum: Checksum,
    records: u32,
    done: bool,
}

impl Export {
    /// A buffer of this many bytes is long enough for every record.
    pub const MIN_BUFFER: usize = 4_096;

    /// The beginning.
    pub const fn new() -> Self {
        Self { at: Cursor::START, sum: Checksum::NEW, records: 0, done: false }
    }

    /// Whether the image is complete.
    pub const fn is_done(&self) -> bool {
        self.done
    }
}

impl Default for Export {
    fn default() -> Self {
        Self::new()
    }
}

/// An endpoint that is being filled from an image. Nothing can be done with it before it is complete and its checksum is right:
/// the endpoint comes from [`Import::finish`], or not at all.
#[derive(Debug)]
pub struct Import<'s> {
    endpoint: Endpoint<'s>,
    at: Cursor,
    sum: Checksum,
    records: u32,
    end: Result<bool, ImageError>,
}

impl<'s> Import<'s> {
    /// For an image of an endpoint that had this configuration and these limits.
    ///
    /// # Errors
    /// As [`Endpoint::new`].
    pub fn new(cfg: EndpointConfig, storage: Storage<'s>) -> Result<Self, ConfigError> {
        // All that the seed gave is replaced.
        let endpoint = Endpoint::new(cfg, storage, 0)?;
        Ok(Self { endpoint, at: Cursor::START, sum: Checksum::NEW, records: 0, end: Ok(false) })
    }

    /// Takes the next bytes of the image and returns how many. Only whole records are taken: hand over the others again, with
    /// those that follow. A piece of [`Export::MIN_BUFFER`] bytes always holds a record, so that a call which takes nothing of
    /// more bytes than that cannot happen.
    ///
    /// # Errors
    /// The image is refused, and every later call says so again.
    pub fn feed(&mut self, image: &[u8]) -> Result<usize, ImageError> {
        self.end?;
        let mut rest = image;
        while let Some((len, after)) = rest.split_first_chunk() {
            let len = usize::from(u16::from_le_bytes(*len));
            if len > const { Export::MIN_BUFFER - 2 } {
                return self.refuse(ImageError::Damaged(self.at.table.name()));
            }
            let Some((body, after)) = after.split_at_checked(len) else { break };
            if let Err(why) = self.record(body) {
                return self.refuse(why);
            }
            rest = after;
        }
        Ok(image.len().saturating_sub(rest.len()))
    }

    fn refuse<T>(&mut self, why: ImageError) -> Result<T, ImageError> {
        self.end = Err(why);
        Err(why)
    }

    /// Whether the whole image was taken.
    pub const fn is_complete(&self) -> bool {
        matches!(self.end, Ok(true))
    }

    /// The endpoint, which goes on where the other one stopped.
    ///
    /// # Errors
    /// The image was refused, or it has no end.
    pub fn finish(self) -> Result<Endpoint<'s>, ImageError> {
        if self.end? { Ok(self.endpoint) } else { Err(ImageError::Truncated) }
    }

    fn record(&mut self, body: &[u8]) -> Result<(), ImageError> {
        if self.end == Ok(true) {
            return Err(ImageError::Damaged("bytes behind the end"));
        }
        let mut from = Reader::new(body);
        let damaged = ImageError::Damaged(self.at.table.name());
        match self.at.table {
            Table::Head => self.head(&mut from)?,
            Table::End => {
                let (records, sum) = Stored::load(&mut from).ok_or(damaged)?;
                if (records, sum) != (self.records, self.sum.value()) {
                    return Err(ImageError::Checksum);
                }
                self.end = Ok(true);
            }
            _ => self.endpoint.record(&mut self.at, &mut from).ok_or(damaged)?,
        }
        if !from.is_empty() {
            return Err(damaged);
        }
        self.sum.add(body);
        self.records = self.records.saturating_add(1);
        Ok(())
    }

    fn head(&mut self, from: &mut Reader<'_>) -> Result<(), ImageError> {
        let have = Head::load(from).ok_or(ImageError::Foreign)?;
        let want = Head::of(&self.endpoint);
        if have.magic != want.magic {
            return Err(ImageError::Foreign);
        }
        if have.format != want.format {
            return Err(ImageError::Format { have: have.format, known: want.format });
        }
        if have.limits != want.limits {
            return Err(ImageError::Limits);
        }
        if have.config != want.config {
            return Err(ImageError::Config);
        }
        self.at.advance(Left::Nothing, 1);
        Ok(())
    }
}

/// The first record: what must be equal on both sides.
struct Head {
    magic: u64,
    format: u16,
    /// Checksums of limits and configuration.
    limits: u32,
    config: u32,
}

crate::image::stored!(struct Head { magic, format, limits, config });

impl Head {
    fn of(endpoint: &Endpoint<'_>) -> Self {
        let (limits, config) = (Checksum::of(&endpoint.limits), Checksum::of(&endpoint.cfg));
        Self { magic: MAGIC, format: FORMAT, limits, config }
    }
}

impl Endpoint<'_> {
    /// Writes the next piece of an image of this endpoint into `out` and returns its length; [`Export::is_done`] tells when it
    /// was the last. The work of a call is bounded by the length of `out`. The pieces one behind the other are the image.
    ///
    /// Between the first and the last call no other one may change the endpoint. Afterwards it is as it was, so that an update
    /// that fails can be given up. The image holds the keys of all regions and what later ones are drawn from: keep it as secret
    /// as the memory of the endpoint.
    ///
    /// # Errors
    /// `out` is shorter than the next record, which needs so many bytes: at most [`Export::MIN_BUFFER`].
    pub fn export(&mut self, export: &mut Export, out: &mut [u8]) -> Result<usize, usize> {
        let mut len = 0usize;
        while !export.done
            && let Some((head, body)) = out.get_mut(len..).and_then(<[u8]>::split_first_chunk_mut)
        {
            let (mut at, mut done) = (export.at, false);
            let mut to = Writer::new(body, export.sum);
            match at.table {
                Table::Head => {
                    Head::of(self).save(&mut to);
                    at.advance(Left::Nothing, 1);
                }
                Table::End => {
                    (export.records, export.sum.value()).save(&mut to);
                    done = true;
                }
                // Writing refuses nothing.
                _ => drop(self.record(&mut at, &mut to)),
            }
            let (written, sum) = to.finish();
            let record = written.saturating_add(2);
            let Some(sum) = sum else { return if len == 0 { Err(record) } else { Ok(len) } };
            *head = (written as u16).to_le_bytes();
            len = len.saturating_add(record);
            *export = Export { at, sum, records: export.records.saturating_add(1), done };
        }
        if len == 0 && !export.done { Err(Export::MIN_BUFFER) } else { Ok(len) }
    }
}
