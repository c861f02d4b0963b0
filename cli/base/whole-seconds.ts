import { InvalidArgumentError } from 'commander';

/** A duration of an option; the service says how long is too long. */
export function wholeSeconds(text: string): number {
  if (/^\d{1,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It is a whole number of seconds.');
}
