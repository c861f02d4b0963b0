import { type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { canonicalJson } from '../../crypto/canonical-json.ts';
import { type CarriedMembers, noCarried } from '../../model/attestation.ts';
import { conditionIdPattern } from '../../model/condition.ts';
import { outcomes } from '../../model/decision.ts';
import { limits } from '../../model/limits.ts';
import { closed, nullable } from '../api/fields.ts';

/** A hash, or the commitment to a value. */
export const sha256Text = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' });

export const ConditionId = Type.String({ pattern: conditionIdPattern.source });
/** A JSON pointer; its texts are those of callers. */
const FactPath = Type.String({
  maxLength: limits.piiPointerCharsMax,
  pattern: '^(?:/(?:request|passport|claims)/[^\\u0000]*|/user)$',
});

const member = <Name extends keyof CarriedMembers>(schema: TSchema) =>
  Type.Optional(nullable(Type.Unsafe<NonNullable<CarriedMembers[Name]>>(schema)));

/** Bounds and forms of contract §9. */
export const CarriedAnswer = closed({
  /** The ids of the conditions that failed, in their order; null: there are none. Form 2. */
  conditions: member<'conditions'>(Type.Array(ConditionId, { maxItems: limits.carriedConditionsMax })),
  /** What an external decision point answered; `decision` null: nothing. Form 2. */
  external: member<'external'>(
    closed({ commitment: nullable(sha256Text), decision: nullable(Type.Boolean()) }),
  ),
  /** Commitments to values that the decision read. Form 2. */
  facts: member<'facts'>(
    Type.Array(closed({ commitment: sha256Text, path: FactPath }), { maxItems: limits.carriedFactsMax }),
  ),
  /** The `jti` of the permit token that the answer carried. Form 2. */
  permit_token: member<'permit_token'>(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' })),
  /** What another policy would have decided; `decision` null: it could not be known. Form 2. */
  shadow: member<'shadow'>(
    closed({
      condition: nullable(ConditionId),
      decision: nullable(Type.Enum(outcomes)),
      policy_hash: sha256Text,
      reason: nullable(Type.String({ pattern: '^[a-z0-9_]{1,64}$' })),
    }),
  ),
  /** Units of what is no money, by name. Form 2. */
  units: member<'units'>(
    Type.Record(
      Type.String({ pattern: '^[a-z][a-z0-9_]{0,63}$' }),
      Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
      { additionalProperties: false, maxProperties: limits.carriedUnitsMax },
    ),
  ),
  /** Commitment to the person behind the agent. Form 2. */
  user: member<'user'>(sha256Text),
});

export const carriedNames = Object.keys(noCarried) as readonly (keyof CarriedMembers)[];

const shape = Compile(CarriedAnswer);

/** Null: none has a value. Undefined: one is not of its type. Ignores other members. */
export function parseCarried(
  given: Readonly<Partial<Record<keyof CarriedMembers, unknown>>>,
): CarriedMembers | null | undefined {
  if (carriedNames.every((name) => (given[name] ?? null) === null)) return null;
  const carried = Object.fromEntries(carriedNames.map((name) => [name, given[name] ?? null]));
  if (!shape.Check(carried)) return undefined;
  // RFC 8785 has no form for half of a surrogate pair.
  if (carried.facts?.every(({ path }) => path.isWellFormed()) === false) return undefined;
  return JSON.parse(canonicalJson(carried));
}
