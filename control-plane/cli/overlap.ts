import { InvalidArgumentError } from 'commander';

/** How long an old secret stays valid beside a new one; the service says how long is too long. */
export function overlapSeconds(text: string): number {
  if (/^\d{1,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It is a whole number of seconds.');
}
