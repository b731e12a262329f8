//! The options of a search.
//!
//! Words are checked one after the other, and a member that is the centre is looked up when its
//! word comes: so the client is told of the first error.

use pantala_base::number::parse_i64;
use pantala_values::geo::{Outline, Position, Shape};
use pantala_values::sorted_set::SortedSetRef;

use super::{position, unit};
use crate::error::{self, ClientError};
use crate::options::is_word;

const RADIUS_NOT_NUMBER: ClientError = ClientError::text("ERR need numeric radius");
const RADIUS_NEGATIVE: ClientError = ClientError::text("ERR radius cannot be negative");
const WIDTH_NOT_NUMBER: ClientError = ClientError::text("ERR need numeric width");
const HEIGHT_NOT_NUMBER: ClientError = ClientError::text("ERR need numeric height");
const BOX_NEGATIVE: ClientError = ClientError::text("ERR height or width cannot be negative");
const COUNT_NOT_POSITIVE: ClientError = ClientError::text("ERR COUNT must be > 0");
const ANY_WITHOUT_COUNT: ClientError =
    ClientError::text("ERR the ANY argument requires COUNT argument");
const VERTICES_NOT_NUMBER: ClientError = ClientError::text("ERR invalid number of vertices");
const TOO_FEW_VERTICES: ClientError =
    ClientError::text("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");

/// The command whose options are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// GEORADIUS: around a position.
    Radius {
        /// Whether STORE is allowed.
        may_store: bool,
    },
    /// GEORADIUSBYMEMBER.
    ByMember {
        /// Whether STORE is allowed.
        may_store: bool,
    },
    /// GEOSEARCH.
    Search,
    /// GEOSEARCHSTORE.
    SearchStore,
}

/// The order of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

/// The options of a search of the GEO family, parsed.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub with_distance: bool,
    pub with_hash: bool,
    pub with_position: bool,
    pub order: Option<Order>,
    /// The most results; 0: all.
    pub count: usize,
    /// Any `count` results will do (ANY).
    pub any: bool,
    /// Whether the result is stored, and distances as scores.
    pub stores: bool,
    pub stores_distances: bool,
    from: Option<SearchOrigin>,
    outline: Option<Outline>,
    /// Whether the shape is a polygon.
    pub is_polygon: bool,
    /// The metres of the given unit.
    pub unit: f64,
}

/// The centre of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SearchOrigin {
    /// FROMMEMBER; no position if there is no sorted set.
    Member(Option<Position>),
    Position(Position),
}

impl Query {
    /// Parses the arguments, given the sorted set, if there is one.
    pub fn parse(
        args: &[&[u8]],
        form: Form,
        set: Option<SortedSetRef<'_>>,
    ) -> Result<Query, ClientError> {
        let mut query = Query { unit: 1.0, ..Query::default() };
        let rest = match form {
            Form::Radius { .. } => {
                query.from = Some(SearchOrigin::Position(position(args[2], args[3])?));
                query.take_radius(args[4], args[5])?;
                &args[6..]
            }
            // Without a sorted set the member cannot be looked up.
            Form::ByMember { .. } if set.is_none() => &args[5..],
            Form::ByMember { .. } => {
                query.take_member(args[2], set)?;
                query.take_radius(args[3], args[4])?;
                &args[5..]
            }
            Form::Search => &args[2..],
            Form::SearchStore => {
                query.stores = true;
                &args[3..]
            }
        };
        query.take_options(rest, form, set)?;
        query.check(form, args[0])?;
        Ok(query)
    }

    fn take_options(
        &mut self,
        args: &[&[u8]],
        form: Form,
        set: Option<SortedSetRef<'_>>,
    ) -> Result<(), ClientError> {
        let is_search = matches!(form, Form::Search | Form::SearchStore);
        let mut rest = args;
        while let [word, more @ ..] = rest {
            rest = match more {
                _ if self.take_flag(word) => more,
                [count, left @ ..] if is_word(word, "COUNT") => {
                    let count = parse_i64(count).ok_or(error::NOT_INTEGER)?;
                    self.count = usize::try_from(count).unwrap_or(0);
                    if self.count == 0 {
                        return Err(COUNT_NOT_POSITIVE);
                    }
                    left
                }
                _ if is_search => self.take_search_option(word, more, form, set)?,
                [_key, left @ ..] => {
                    self.take_store(word, form)?;
                    left
                }
                _ => return Err(error::SYNTAX),
            };
        }
        Ok(())
    }

    fn take_flag(&mut self, word: &[u8]) -> bool {
        match word {
            _ if is_word(word, "WITHDIST") => self.with_distance = true,
            _ if is_word(word, "WITHHASH") => self.with_hash = true,
            _ if is_word(word, "WITHCOORD") => self.with_position = true,
            _ if is_word(word, "ANY") => self.any = true,
            _ if is_word(word, "ASC") => self.order = Some(Order::Ascending),
            _ if is_word(word, "DESC") => self.order = Some(Order::Descending),
            _ => return false,
        }
        true
    }

    /// Handles STORE and STOREDIST; the row knows the position of the key.
    fn take_store(&mut self, word: &[u8], form: Form) -> Result<(), ClientError> {
        let (Form::Radius { may_store } | Form::ByMember { may_store }) = form else {
            return Err(error::SYNTAX);
        };
        let with_distances = is_word(word, "STOREDIST");
        if !may_store || !(with_distances || is_word(word, "STORE")) {
            return Err(error::SYNTAX);
        }
        (self.stores, self.stores_distances) = (true, with_distances);
        Ok(())
    }

    /// Handles a word of GEOSEARCH with the words after it; returns what is left.
    fn take_search_option<'a, 'b>(
        &mut self,
        word: &[u8],
        more: &'a [&'b [u8]],
        form: Form,
        set: Option<SortedSetRef<'_>>,
    ) -> Result<&'a [&'b [u8]], ClientError> {
        let is_polygon = matches!(self.outline, Some(Outline::Polygon(_)));
        let is_round = matches!(self.outline, Some(Outline::Circle { .. }));
        let is_box = matches!(self.outline, Some(Outline::Box { .. }));
        let from_member = matches!(self.from, Some(SearchOrigin::Member(_)));
        let from_position = matches!(self.from, Some(SearchOrigin::Position(_)));
        match more {
            _ if form == Form::SearchStore && is_word(word, "STOREDIST") => {
                self.stores_distances = true;
                Ok(more)
            }
            [member, left @ ..] if is_word(word, "FROMMEMBER") && !from_position && !is_polygon => {
                self.take_member(member, set)?;
                Ok(left)
            }
            [x, y, left @ ..] if is_word(word, "FROMLONLAT") && !from_member && !is_polygon => {
                self.from = Some(SearchOrigin::Position(position(x, y)?));
                Ok(left)
            }
            [radius, name, left @ ..] if is_word(word, "BYRADIUS") && !is_box && !is_polygon => {
                self.take_radius(radius, name)?;
                Ok(left)
            }
            [width, height, name, left @ ..]
                if is_word(word, "BYBOX") && !is_round && !is_polygon =>
            {
                self.take_box(width, height, name)?;
                Ok(left)
            }
            [_, _, ..]
                if is_word(word, "BYPOLYGON") && !is_round && !is_box && self.from.is_none() =>
            {
                self.take_polygon(more)
            }
            _ => Err(error::SYNTAX),
        }
    }

    fn take_member(
        &mut self,
        member: &[u8],
        set: Option<SortedSetRef<'_>>,
    ) -> Result<(), ClientError> {
        let place = match set {
            None => None,
            Some(set) => {
                let score = set.score(member).ok_or_else(|| error::no_member(member))?;
                Some(Position::of_score(score))
            }
        };
        self.from = Some(SearchOrigin::Member(place));
        Ok(())
    }

    fn take_radius(&mut self, radius: &[u8], name: &[u8]) -> Result<(), ClientError> {
        let radius = length(radius).ok_or(RADIUS_NOT_NUMBER)?;
        if radius < 0.0 {
            return Err(RADIUS_NEGATIVE);
        }
        self.unit = unit(name)?;
        self.outline = Some(Outline::Circle { radius });
        Ok(())
    }

    fn take_box(&mut self, width: &[u8], height: &[u8], name: &[u8]) -> Result<(), ClientError> {
        let width = length(width).ok_or(WIDTH_NOT_NUMBER)?;
        let height = length(height).ok_or(HEIGHT_NOT_NUMBER)?;
        if width < 0.0 || height < 0.0 {
            return Err(BOX_NEGATIVE);
        }
        self.unit = unit(name)?;
        self.outline = Some(Outline::Box { width, height });
        Ok(())
    }

    fn take_polygon<'a, 'b>(
        &mut self,
        args: &'a [&'b [u8]],
    ) -> Result<&'a [&'b [u8]], ClientError> {
        let [count, more @ ..] = args else { return Err(error::SYNTAX) };
        let count = parse_i64(count).and_then(|count| i32::try_from(count).ok());
        let count = usize::try_from(count.ok_or(VERTICES_NOT_NUMBER)?).unwrap_or(0);
        let numbers = count.saturating_mul(2);
        if count < 3 || numbers > more.len() {
            return Err(TOO_FEW_VERTICES);
        }
        let (corners, left) = more.split_at(numbers);
        let corners = corners.chunks_exact(2).map(|pair| position(pair[0], pair[1]));
        self.outline = Some(Outline::Polygon(corners.collect::<Result<_, _>>()?));
        self.unit = 1.0;
        Ok(left)
    }

    /// Checks for missing words, and for words that exclude each other.
    fn check(&mut self, form: Form, name: &[u8]) -> Result<(), ClientError> {
        let is_search = matches!(form, Form::Search | Form::SearchStore);
        if self.stores && (self.with_distance || self.with_hash || self.with_position) {
            let what = if is_search { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(ClientError::new(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        self.is_polygon = matches!(self.outline, Some(Outline::Polygon(_)));
        if is_search && self.from.is_none() && !self.is_polygon {
            return Err(error::exactly_one("FROMMEMBER or FROMLONLAT", name));
        }
        if is_search && self.outline.is_none() {
            return Err(error::exactly_one("BYRADIUS, BYBOX and BYPOLYGON", name));
        }
        if self.any && self.count == 0 {
            return Err(ANY_WITHOUT_COUNT);
        }
        // With COUNT and without ANY, the nearest are wanted.
        if self.count > 0 && !self.any && self.order.is_none() {
            self.order = Some(Order::Ascending);
        }
        Ok(())
    }

    /// After this many hits the search may end.
    pub fn most(&self) -> usize {
        if self.any { self.count } else { usize::MAX }
    }

    /// The shape to be searched; `None` without a sorted set.
    pub fn shape(&mut self) -> Option<Shape> {
        match self.outline.take()? {
            Outline::Polygon(corners) => Some(Shape::polygon(corners)),
            outline => {
                let (SearchOrigin::Position(middle) | SearchOrigin::Member(Some(middle))) =
                    self.from?
                else {
                    return None;
                };
                Some(Shape::around(middle, outline, self.unit))
            }
        }
    }
}

fn length(text: &[u8]) -> Option<f64> {
    pantala_base::number::parse_f64(text)
}
