//! Chakra execution traces (MLCommons): one protobuf file per rank, `NAME.0.et`, `NAME.1.et` and so on, each a sequence of
//! messages with their lengths before them: first the metadata, then nodes. Read are computations (`duration_micros`), sends and
//! receives (`comm_src`, `comm_dst`, `comm_size`, `comm_tag`) and collectives (`comm_type`, `comm_size`): over all ranks, or with a
//! process group (`pg_name`) over those ranks that name it. Those with a root have it in `root_rank`, a place in the group, by default the
//! first. Files without metadata are read, too.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;

use prost::Message;

use super::{Bad, Op, Origin, Pattern, What, excerpt};

/// `Node` of `et_def.proto`, as far as it matters.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    pub(super) kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub(super) ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub(super) data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    pub(super) duration_micros: u64,
    #[prost(message, repeated, tag = "10")]
    pub(super) attr: Vec<Attribute>,
}

/// `GlobalMetadata`, the first message of a file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(string, tag = "1")]
    pub(super) version: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) attr: Vec<Attribute>,
}

/// `AttributeProto`: all of it but floating-point numbers, bytes and lists other than `involved_dim`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(oneof = "Value", tags = "7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 28, 29")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Value {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(message, tag = "28")]
    Bools(Bools),
    #[prost(string, tag = "29")]
    Text(String),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bools {
    #[prost(bool, repeated, tag = "1")]
    pub(super) values: Vec<bool>,
}

impl Value {
    /// The whole number that it is, also one written as text.
    fn number(&self) -> Option<i128> {
        Some(match self {
            Self::Int32(value) | Self::Sint32(value) | Self::Sfixed32(value) => (*value).into(),
            Self::Int64(value) | Self::Sint64(value) | Self::Sfixed64(value) => (*value).into(),
            Self::Uint32(value) | Self::Fixed32(value) => (*value).into(),
            Self::Uint64(value) | Self::Fixed64(value) => (*value).into(),
            Self::Text(text) => text.parse().ok()?,
            Self::Bool(_) | Self::Bools(_) => return None,
        })
    }
}

/// The names of process groups, numbered from 1.
type Groups = HashMap<String, u32>;

impl Node {
    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attr.iter().find(|attr| attr.name == name)
    }

    /// The number of its process group; 0 of all ranks.
    fn group(&self, groups: &mut Groups) -> Result<u32, Bad> {
        let name = match self.attribute("pg_name").map(|attr| attr.value.as_ref()) {
            None => return Ok(0),
            Some(Some(Value::Text(text))) => text.clone(),
            Some(value) => value.and_then(Value::number).ok_or("neither text nor a number called pg_name")?.to_string(),
        };
        if name.is_empty() {
            return Ok(0);
        }
        let next = groups.len() as u32 + 1;
        Ok(*groups.entry(name).or_insert(next))
    }

    fn number(&self, name: &str) -> Option<u64> {
        u64::try_from(self.attribute(name)?.value.as_ref()?.number()?).ok()
    }

    /// The tag; 0 where there is none. Negative ones are tags, too.
    fn tag(&self) -> Result<u64, Bad> {
        let Some(attr) = self.attribute("comm_tag") else { return Ok(0) };
        let number = attr.value.as_ref().and_then(Value::number).ok_or("no whole number called comm_tag")?;
        let signed = i64::try_from(number).map(|number| number as u64);
        signed.or_else(|_| u64::try_from(number)).map_err(|_| format!("comm_tag = {number} is no tag"))
    }

    /// Whether dimensions of the fabric are left out.
    fn leaves_out(&self) -> Result<bool, Bad> {
        match self.attribute("involved_dim").map(|attr| attr.value.as_ref()) {
            None => Ok(false),
            Some(Some(Value::Bools(dims))) => Ok(!dims.values.iter().all(|&involved| involved)),
            Some(Some(Value::Bool(involved))) => Ok(!involved),
            Some(_) => Err("no list of truth values called involved_dim".to_owned()),
        }
    }

    fn what(&self, rank: u32, groups: &mut Groups) -> Result<What, Bad> {
        let at = |why: Bad| format!("node {} of rank {rank} (`{}`): {why}", self.id, excerpt(&self.name));
        let need = |name: &str| self.number(name).ok_or_else(|| at(format!("no number from 0 on called {name}")));
        let rank_of = |name: &str| {
            let value = need(name)?;
            u32::try_from(value).map_err(|_| at(format!("{name} = {value} is no rank")))
        };
        let tag = || self.tag().map_err(at);
        Ok(match self.kind {
            5 => What::Send { to: rank_of("comm_dst")?, bytes: need("comm_size")?, tag: tag()? },
            6 => What::Receive { from: Some(rank_of("comm_src")?), tag: Some(tag()?) },
            7 => {
                let root = if self.attribute("root_rank").is_some() { rank_of("root_rank")? } else { 0 };
                let pattern = match need("comm_type")? {
                    0 => Pattern::AllReduce,
                    1 => Pattern::Reduce { root },
                    2 => Pattern::AllGather,
                    3 => Pattern::Gather { root },
                    4 => Pattern::Scatter { root },
                    5 => Pattern::Broadcast { root },
                    6 => Pattern::AllToAll,
                    7 | 8 => Pattern::ReduceScatter,
                    9 => Pattern::Barrier,
                    other => return Err(at(format!("collective {other}; known are 0 to 9"))),
                };
                let group = self.group(groups).map_err(at)?;
                if group == 0 && self.leaves_out().map_err(at)? {
                    let cure = "dimensions are not known here: name the process group (pg_name)";
                    return Err(at(format!("involved_dim leaves some out, and {cure}")));
                }
                // A barrier moves nothing, so that its size may be missing.
                let bytes = if pattern == Pattern::Barrier { 0 } else { need("comm_size")? };
                What::Together { pattern, bytes, group }
            }
            0..=4 => What::Compute(self.duration_micros.saturating_mul(1000)),
            other => return Err(at(format!("node type {other}; known are 0 to 7"))),
        })
    }
}

/// The operations of all ranks.
pub(super) fn read(name: &Path) -> Result<Vec<Vec<Op>>, Bad> {
    let mut ranks = Vec::new();
    let mut groups = Groups::new();
    let stem = name.file_name().unwrap_or_default().to_string_lossy();
    loop {
        let path = name.with_file_name(format!("{stem}.{}.et", ranks.len()));
        let of_file = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        match std::fs::read(&path) {
            Ok(bytes) => {
                ranks.push(read_rank(&bytes, ranks.len() as u32, &mut groups).map_err(|why| of_file(&why))?);
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !ranks.is_empty() => {
                return match later(name, &stem, ranks.len()) {
                    Some(other) => Err(of_file(&format_args!("there is no such file, but {other}"))),
                    None => Ok(ranks),
                };
            }
            Err(error) => return Err(of_file(&error)),
        }
    }
}

/// A file of the same trace with a number above `missing`: the trace has a gap, and does not end.
fn later(name: &Path, stem: &str, missing: usize) -> Option<String> {
    let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files = std::fs::read_dir(folder).ok()?.flatten().filter_map(|file| file.file_name().into_string().ok());
    files.into_iter().find(|file| {
        let number = file.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".et"));
        number.and_then(|number| number.parse::<usize>().ok()).is_some_and(|number| number > missing)
    })
}

fn read_rank(mut bytes: &[u8], rank: u32, groups: &mut Groups) -> Result<Vec<Op>, Bad> {
    let broken = |error: prost::DecodeError| format!("no Chakra execution trace: {error}");
    let mut next = || -> Result<Option<&[u8]>, Bad> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let len = prost::decode_length_delimiter(&mut bytes).map_err(broken)?;
        let (one, rest) = bytes.split_at_checked(len).ok_or("no Chakra execution trace: it ends within a message")?;
        bytes = rest;
        Ok(Some(one))
    };
    let first = next()?.ok_or("no Chakra execution trace: it is empty")?;
    // Metadata are no node, and a node has a kind or a number. What is neither is broken.
    let mut nodes: Vec<Node> = match Node::decode(first) {
        Ok(node) if node.kind != 0 || node.id != 0 => vec![node],
        Err(why) if Metadata::decode(first).is_err() => return Err(broken(why)),
        _ => Vec::new(),
    };
    while let Some(one) = next()? {
        nodes.push(Node::decode(one).map_err(broken)?);
    }
    let mut places: HashMap<u64, usize> = HashMap::new();
    for (nth, node) in nodes.iter().enumerate() {
        if places.insert(node.id, nth).is_some() {
            return Err(format!("two nodes have the number {}", node.id));
        }
    }
    let mut op = |node: &Node| {
        let deps = node.ctrl_deps.iter().chain(&node.data_deps).map(|id| {
            places.get(id).copied().ok_or_else(|| format!("node {} waits for node {id}, which is not there", node.id))
        });
        let (what, after) = (node.what(rank, groups)?, deps.collect::<Result<_, Bad>>()?);
        Ok(Op { what, after, beside: Vec::new(), at: Origin::Node(node.id) })
    };
    nodes.iter().map(&mut op).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_broken_is_refused() {
        let attr = |name: &str, value| Attribute { name: name.to_owned(), value: Some(value) };
        let send = Node {
            id: 9,
            name: "send".to_owned(),
            kind: 5,
            ctrl_deps: vec![4],
            attr: vec![
                attr("comm_dst", Value::Int32(3)),
                attr("comm_size", Value::Uint64(77)),
                attr("comm_tag", Value::Text("5".to_owned())),
            ],
            ..Node::default()
        };
        let compute = Node { id: 4, kind: 4, duration_micros: 12, ..Node::default() };
        let mut file = vec![0];
        for node in [&send, &compute] {
            file.extend(node.encode_length_delimited_to_vec());
        }
        let ops = read_rank(&file, 0, &mut Groups::new()).unwrap();
        let what = What::Send { to: 3, bytes: 77, tag: 5 };
        assert_eq!(ops[0], Op { what, after: vec![1], beside: vec![], at: Origin::Node(9) });
        assert_eq!(ops[1].what, What::Compute(12_000));
        for cut in 2..file.len() {
            let _ = read_rank(&file[..cut], 0, &mut Groups::new()); // no panic
        }
        assert!(read_rank(&[], 0, &mut Groups::new()).unwrap_err().contains("empty"));
        let negative =
            Node { attr: vec![attr("comm_dst", Value::Int32(1)), attr("comm_size", Value::Int64(-5))], ..send };
        let why = negative.what(0, &mut Groups::new()).unwrap_err();
        assert_eq!(why, "node 9 of rank 0 (`send`): no number from 0 on called comm_size");
        assert!(read_rank(b"hello", 0, &mut Groups::new()).is_err());
    }
}
