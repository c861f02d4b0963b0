import { type TProperties, Type } from 'typebox';
import { canonicalJson } from '../../crypto/canonical-json.ts';
import { invalidRequest } from '../../errors/api-error.ts';

/**
 * Read-only members as an update accepts them, so that the answer of `GET` can be sent back with a change
 * (contract §4). `refuseChanges` compares members that must not have changed; of members that move by
 * themselves, such as counts, only the form is checked.
 */
export const readOnly = <Fields extends TProperties>(fields: Fields) =>
  Type.Partial(Type.Object(fields)).properties;

/**
 * Throws `invalid_request`, naming the first of these fields that differs from the answer of `GET` now. The
 * order of members does not matter.
 */
export function refuseChanges(
  body: Readonly<Record<string, unknown>>,
  current: Readonly<Record<string, unknown>>,
  fields: TProperties,
): void {
  for (const name of Object.keys(fields)) {
    if (body[name] === undefined || isSame(body[name], current[name])) continue;
    throw invalidRequest(name, `${name} cannot be changed here: leave it out, or send what GET answers.`);
  }
}

const isSame = (sent: unknown, current: unknown): boolean =>
  sent === current || (isObject(sent) && isObject(current) && canonicalJson(sent) === canonicalJson(current));

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;
