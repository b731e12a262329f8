//! Positions on the Earth: sorted sets whose scores are cells of a grid over the world.
//!
//! | file | commands |
//! |---|---|
//! | `place` | GEOADD, GEOPOS, GEOHASH, GEODIST |
//! | `query` | the options of a search |
//! | `search` | GEOSEARCH, GEOSEARCHSTORE, GEORADIUS, GEORADIUSBYMEMBER and their _RO forms |
//!
//! Here is what they share: positions, units, distances. Tests: compat/transcripts/geo.

mod place;
mod query;
mod search;

use pantala_base::number::{LongDouble, parse_f64, push_i64};
use pantala_protocol::Reply;
use pantala_values::geo::Position;

use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, KeyFlags, KeySpec};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    place::GEOADD,
    place::GEODIST,
    place::GEOHASH,
    place::GEOPOS,
    search::GEORADIUS,
    search::GEORADIUSBYMEMBER,
    search::GEORADIUSBYMEMBER_RO,
    search::GEORADIUS_RO,
    search::GEOSEARCH,
    search::GEOSEARCHSTORE,
];

const READS: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];

const NO_UNIT: ClientError =
    ClientError::text("ERR unsupported unit provided. please use M, KM, FT, MI");

/// The metres of a unit.
fn unit(word: &[u8]) -> Result<f64, ClientError> {
    let units = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    units.iter().find(|(name, _)| is_word(word, name)).map(|(_, metres)| *metres).ok_or(NO_UNIT)
}

/// Longitude and latitude.
fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, ClientError> {
    let degrees = |text: &[u8]| parse_f64(text).ok_or(error::NOT_FLOAT);
    let (longitude, latitude) = (degrees(longitude)?, degrees(latitude)?);
    Position::new(longitude, latitude).ok_or_else(|| {
        let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        ClientError::new(text)
    })
}

/// Writes a distance, with four decimal places.
fn reply_distance(reply: &mut Reply<'_>, length: f64, text: &mut Vec<u8>) {
    const PLACES: i64 = 10_000;
    let scaled = (length * PLACES as f64).round_ties_even() as i64;
    text.clear();
    push_i64(text, scaled / PLACES);
    // A leading one keeps the zeros after the point; it is overwritten by the point.
    let point = text.len();
    push_i64(text, PLACES + scaled % PLACES);
    text[point] = b'.';
    reply.bulk(text);
}

/// Writes longitude and latitude in full precision.
fn reply_position(reply: &mut Reply<'_>, position: Position, text: &mut Vec<u8>) {
    reply.array(2);
    for degrees in [position.longitude, position.latitude] {
        text.clear();
        LongDouble::from_f64(degrees).push_human(text);
        reply.double_text(text);
    }
}
