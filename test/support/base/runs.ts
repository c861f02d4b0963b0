/** Whether this is lane `long`, which plays in full what the other lanes play in a short form. */
export const isLong = process.env['LONG'] === '1';

/** How often a property is tried. Its short form is there to fail soon where something is plainly broken. */
export const runs = (times: { readonly short: number; readonly long: number }): number =>
  isLong ? times.long : times.short;
