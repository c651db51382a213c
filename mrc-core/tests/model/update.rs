//! A live update in the middle of a schedule.

use mrc_core::{Endpoint, Export, Import, Storage};

/// Replaces an endpoint by one that goes on from its image, which passes through a buffer of this size beyond the least. Nobody
/// else is told.
pub(crate) fn replace<'s>(engine: &mut Endpoint<'s>, storage: Storage<'s>, buffer: usize) {
    let (mut export, mut image) = (Export::new(), Vec::new());
    let mut out = vec![0; Export::MIN_BUFFER + buffer];
    let mut import = Import::new(engine.config().clone(), storage).unwrap();
    while !export.is_done() {
        let len = engine.export(&mut export, &mut out).unwrap();
        image.extend(&out[..len]);
        // Pieces end anywhere.
        let held_back = if export.is_done() { 0 } else { buffer % 7 };
        let taken = import.feed(&image[..image.len() - held_back]).unwrap();
        drop(image.drain(..taken));
    }
    assert!(image.is_empty());
    *engine = import.finish().unwrap();
}
