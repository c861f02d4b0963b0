/**
 * How much of a row is run. `quick`: fewer and shorter rounds, for a look, not for a claim. `brief`: its own
 * sides alone, one moment each, which shows that it runs and says nothing about speed.
 */
export type Size = 'full' | 'quick' | 'brief';

/** Of a side in a brief run. wrk ends a tenth of a second late. */
export const briefS = 0.2;
