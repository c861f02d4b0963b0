import type { Settlement } from '../clients/node/src/settlement.ts';
import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import { readJson, ToolFileError, toolKey } from './amounts.ts';
import { parsePointer } from './display.ts';

/** Tools whose calls hold their amount, by `toolKey`, and what these come to. Others spend it at once. */
export type Settlements = ReadonlyMap<string, ToolSettlement>;

/** As guards of the client for Node.js have it; `amount` reads the result of the call. */
export type ToolSettlement = Settlement<null, JsonObject>;

/**
 * Reads `{ "<tool>": true | { amount?: "<JSON pointer into the result>", expiresInS?, clientLeft? } }`.
 * Throws ToolFileError.
 */
export function readSettlements(path: string): Settlements {
  const json = readJson(path);
  if (!isJsonObject(json)) throw new ToolFileError(`${path} must be a JSON object of tools`);
  const settlements = new Map<string, ToolSettlement>();
  for (const [tool, value] of Object.entries(json)) {
    const settlement = settlementOf(value);
    if (settlement === null) {
      throw new ToolFileError(
        `${path}: "${tool}" must be true, or an object with some of amount (a JSON pointer such as "/structuredContent/cost"), expiresInS (60 to 604800) and clientLeft ("served" or "failed")`,
      );
    }
    if (settlements.has(toolKey(tool))) {
      throw new ToolFileError(`${path} names "${tool}" twice; upper and lower case are the same tool`);
    }
    settlements.set(toolKey(tool), settlement);
  }
  return settlements;
}

function settlementOf(value: unknown): ToolSettlement | null {
  if (value === true) return {};
  if (!isJsonObject(value)) return null;
  const { amount, expiresInS, clientLeft, ...others } = value;
  const path = typeof amount === 'string' ? parsePointer(amount) : null;
  const isSound =
    Object.keys(others).length === 0 &&
    (amount === undefined || path !== null) &&
    (expiresInS === undefined || isHoldTime(expiresInS)) &&
    (clientLeft === undefined || clientLeft === 'served' || clientLeft === 'failed');
  if (!isSound) return null;
  return {
    ...(path !== null && { amount: (_: null, result: JsonObject) => amountAt(path, result) }),
    ...(isHoldTime(expiresInS) && { expiresInS }),
    ...((clientLeft === 'served' || clientLeft === 'failed') && { clientLeft }),
  };
}

/** As the service takes it (contract §19). */
const isHoldTime = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 60 && value <= 604_800;

/** Undefined: the result does not say. NaN: what it says is no number. */
function amountAt(path: readonly string[], result: JsonObject): number | undefined {
  let found: unknown = result;
  for (const part of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, part)) return undefined;
    found = (found as JsonObject)[part];
  }
  return typeof found === 'number' ? found : Number.NaN;
}
