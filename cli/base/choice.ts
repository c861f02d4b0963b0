import { Option } from 'commander';

/** An option that takes one of some words: others are refused, and a shell completes them. */
export const choice = (flags: string, description: string, words: readonly string[]): Option =>
  new Option(flags, description).choices(words);
