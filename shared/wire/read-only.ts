import { type TProperties, Type } from 'typebox';
import { canonicalJson } from '../crypto/canonical-json.ts';
import { invalidRequest } from '../errors/api-error.ts';

/**
 * What `GET` answers and nobody sets, as an update takes it back, so that what was read can be sent again
 * with a change (contract §4). With `refuseChanges` for what must still be so; what moves by itself, such as
 * a count, is held against its form alone.
 */
export const readOnly = <Fields extends TProperties>(fields: Fields) =>
  Type.Partial(Type.Object(fields)).properties;

/**
 * Throws `invalid_request`, naming the first of these fields that is sent and is not what `GET` answers now.
 * The order of members in an object says nothing.
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
