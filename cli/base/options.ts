import { InvalidArgumentError, Option } from 'commander';

/** An option that takes one of some words: others are refused, and a shell completes them. */
export const choice = (flags: string, description: string, words: readonly string[]): Option =>
  new Option(flags, description).choices(words);

/** Reads an option that is a number of this form. `what` says it to who gave another. */
export const numberLike =
  (form: RegExp, what: string) =>
  (text: string): number => {
    if (form.test(text)) return Number(text);
    throw new InvalidArgumentError(what);
  };

/** A duration; the service says how long is too long. */
export const wholeSeconds = numberLike(/^\d{1,8}$/, 'It is a whole number of seconds.');

/** Without the members that are undefined: options that were not given. */
export const given = <T extends object>(members: T): { [K in keyof T]?: NonNullable<T[K]> } =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;
