/** How often a property is tried: `usual` times, or a hundred times that with `LONG=1` in the environment. */
export const runs = (usual: number): number => (process.env['LONG'] === '1' ? usual * 100 : usual);
