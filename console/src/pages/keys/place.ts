// What the address says of the keys to be shown. Tests: tests/unit/place.test.ts.

export interface Place {
  db: number;
  /** What was typed to find keys. */
  find: string;
}

/** The place an address names; without a database that of the other pages. */
export function placeOf(params: URLSearchParams, database: number): Place {
  const db = params.get('db') ?? '';
  return { db: /^\d{1,9}$/.test(db) ? Number(db) : database, find: params.get('find') ?? '' };
}

/** Whether an address names just this place. */
export const isAt = (params: URLSearchParams, place: Place): boolean =>
  params.get('db') === String(place.db) && params.get('find') === place.find;
