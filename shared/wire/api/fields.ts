import { type Static, type TProperties, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { limits } from '../../model/limits.ts';
import { plainTextPattern } from '../../model/plain-text.ts';
import { trustTiers } from '../../model/trust-tier.ts';

/** An object without unknown fields. All bodies of callers are closed. */
export const closed = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false });

export const nullable = <Schema extends Parameters<typeof Type.Union>[0][number]>(schema: Schema) =>
  Type.Union([schema, Type.Null()]);

/** Text for people or models (contract §3): see plain-text.ts. */
export const plainText = (options: { readonly minLength?: number; readonly maxLength: number }) =>
  Type.String({ ...options, pattern: plainTextPattern.source });
export const Name = plainText({ minLength: 1, maxLength: limits.nameCharsMax });
export const Description = nullable(plainText({ maxLength: limits.descriptionCharsMax }));
export const Tier = Type.Enum(trustTiers);
/** ISO 8601 UTC with milliseconds. */
export const Timestamp = Type.String();
export const FreeForm = Type.Record(Type.String(), Type.Unknown());
export type FreeForm = Static<typeof FreeForm>;

const utf8 = new TextEncoder();

/**
 * Free-form objects are stored and answered unchanged, so their size is bounded: `limits.freeFormBytesMax` of
 * JSON.
 */
export function boundFreeForm(param: string, value: FreeForm): FreeForm {
  if (utf8.encode(JSON.stringify(value)).length > limits.freeFormBytesMax) {
    throw invalidRequest(param, `${param} must be at most ${limits.freeFormBytesMax} bytes of JSON.`);
  }
  return value;
}
