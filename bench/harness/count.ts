/** Figures below ten keep their decimals. */
export const count = (figure: number): string =>
  figure.toLocaleString('en-US', { maximumFractionDigits: figure < 10 ? 2 : 0 });
