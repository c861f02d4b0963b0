import { readFileSync } from 'node:fs';
import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import { parsePointer } from './display.ts';
import { foldCase } from './find-ambiguity.ts';
import { proxyLimits } from './limits.ts';

/** The price of a tool call: an amount in USD, or the place of the amount in its arguments. */
type Price = { readonly usd: number } | { readonly path: readonly string[] };

/** By `toolKey`. A tool that is not in it has no amount, and the gate decides what that means. */
export type Amounts = ReadonlyMap<string, Price>;

/**
 * Tools whose names differ in upper and lower case alone share a permission, and so a price: a server may
 * take both for one. ASCII alone: the Kelvin sign in lower case is a plain k, and would be another tool.
 */
export const toolKey = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());

/** A file about tools that cannot be used. The message names the file and the tool. */
export class ToolFileError extends Error {
  override readonly name = 'ToolFileError';
}

/**
 * Reads `{ "<tool>": <USD> | "<JSON pointer into the arguments>" }`. Throws ToolFileError.
 */
export function readAmounts(path: string): Amounts {
  const json = readJson(path);
  if (!isJsonObject(json))
    throw new ToolFileError(`${path} must be a JSON object of tools and their amounts`);
  const amounts = new Map<string, Price>();
  for (const [tool, value] of Object.entries(json)) {
    const price = priceOf(value);
    if (price === null) {
      throw new ToolFileError(
        `${path}: the amount of "${tool}" must be a number of USD from 0 on, or a JSON pointer such as "/amount"`,
      );
    }
    if (amounts.has(toolKey(tool))) {
      throw new ToolFileError(`${path} names "${tool}" twice; upper and lower case are the same tool`);
    }
    amounts.set(toolKey(tool), price);
  }
  return amounts;
}

export function readJson(path: string): unknown {
  try {
    const text = readFileSync(path, 'utf8');
    if (text.length > proxyLimits.amountsFileBytesMax) throw new Error('it is too large');
    return JSON.parse(text);
  } catch (cause) {
    throw new ToolFileError(`${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

function priceOf(value: unknown): Price | null {
  if (typeof value === 'number') return value >= 0 ? { usd: value } : null;
  const path = typeof value === 'string' ? parsePointer(value) : null;
  return path === null ? null : { path };
}

/**
 * The amount of a call in USD; undefined where it has none. NaN if the arguments hold no number at that
 * place, or if a case-insensitive reader could find another one: then the gate is not asked.
 */
export function amountOf(amounts: Amounts, tool: string, args: JsonObject): number | undefined {
  const price = amounts.get(toolKey(tool));
  if (price === undefined) return undefined;
  if ('usd' in price) return price.usd;
  let found: unknown = args;
  for (const part of price.path) {
    if (typeof found !== 'object' || found === null) return undefined;
    const names = Object.keys(found).filter((name) => foldCase(name) === foldCase(part));
    if (names.length === 0) return undefined;
    if (names.length > 1 || names[0] !== part) return Number.NaN;
    found = (found as JsonObject)[part];
  }
  return typeof found === 'number' ? found : Number.NaN;
}
