export const count = (value: number): string => value.toLocaleString('en-US');

/** `1 record`, `2,000 records`. */
export const counted = (value: number, noun: string): string =>
  `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
