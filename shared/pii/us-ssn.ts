import { isNamed, type Span } from './span.ts';

/**
 * Social security numbers of the United States: area 001 to 899 without 666, group 01 to 99, serial 0001 to
 * 9999. With hyphens they are taken anywhere. Nine digits in a row or in groups with spaces are so much else
 * that they count only right after words that say so, or as the value of a member so named, and groups with
 * spaces also where they are the whole text. Taxpayer numbers (9xx) are not looked for.
 */
export function findSsns(text: string, name: string): Span[] {
  const spans: Span[] = [];
  const lengthOfAll = text.trim().length;
  for (const { 0: found, 1: separator, index: start } of text.matchAll(ssn)) {
    const isMeant =
      separator === '-' ||
      (separator === ' ' && found.length === lengthOfAll) ||
      isNamed(words, { text, start, name });
    if (isMeant) spans.push({ start, end: start + found.length });
  }
  return spans;
}

const ssn = /(?<![\w+]|\d[-.,/])(?!000|666|9)\d{3}([ -]?)(?!00)\d{2}\1(?!0000)\d{4}(?!\w|-\w|[.,]\d)/g;
const words = /social[ _-]?sec|\bs\.?s\.?n\b|ssn|soc[ ._-]{1,2}sec|\bss ?(?:#|no\b|nr\b|number)/i;
