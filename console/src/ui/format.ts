/** How values are shown to people, in the reader's language and zone. */

const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });
const dollars = new Intl.NumberFormat('en-US', {
  style: 'currency',
  currency: 'USD',
  minimumFractionDigits: 2,
  maximumFractionDigits: 6,
});
const plain = new Intl.NumberFormat();

const steps = [
  ['second', 60],
  ['minute', 60],
  ['hour', 24],
  ['day', 30],
  ['month', 12],
  ['year', Number.POSITIVE_INFINITY],
] as const;

/** `3 min ago`, `in 2 days`. */
export function fromNow(iso: string, nowMs: number): string {
  let amount = (Date.parse(iso) - nowMs) / 1_000;
  for (const [unit, next] of steps) {
    if (Math.abs(amount) < next) return relative.format(Math.trunc(amount), unit);
    amount /= next;
  }
  return iso;
}

export const localTime = (iso: string): string => moment.format(new Date(iso));
export const utcTime = (iso: string): string => `${iso.slice(0, 19).replace('T', ' ')} UTC`;
export const usd = (amount: number): string => dollars.format(amount);
export const microUsd = (amount: number): string => usd(amount / 1e6);
export const count = (value: number): string => plain.format(value);

/** `passport_revoked` as `passport revoked`. */
export const words = (code: string): string => code.replaceAll('_', ' ');
