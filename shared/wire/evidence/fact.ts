import { type Static, Type } from 'typebox';
import { canonicalJson } from '../../crypto/canonical-json.ts';
import { sha256Hex } from '../../crypto/content-hash.ts';
import { closed } from '../api/fields.ts';
import { sha256Text } from './carried-members.ts';

/*
 * A fact is a value that a decision read. The record has the commitment to it; what opens the commitment, the
 * value and its salt, is kept beside the record and can be erased without it (contract §9, docs/facts.md).
 */

/** Of the RFC 8785 form, in bytes. A longer value is committed by its hash. */
const factValueBytesMax = 1_024;

/** What opens one commitment. Neither `value` nor `hashed`: the path was absent. */
export interface OpeningFact {
  readonly path: string;
  /** base64url of 16 random bytes. */
  readonly salt: string;
  readonly value?: unknown;
  /** `value` is the hash of a longer value. */
  readonly hashed?: true;
}

/** Whose fact it is: of the gate, of the passport's account, or of both. */
export const factOwners = ['gate', 'passport', 'both'] as const;
export type FactOwner = (typeof factOwners)[number];

/** As sidecars ship it. `of` absent: the gate. */
export interface ShippedFact extends OpeningFact {
  readonly of?: Exclude<FactOwner, 'gate'>;
}

/** What stands for the value in the text of its commitment; empty: the path was absent. */
function factForm(value: unknown): string {
  if (value === undefined) return '';
  const form = canonicalJson(value);
  return isTooLong(form) ? `sha256:${sha256Hex(form)}` : form;
}

const isTooLong = (form: string): boolean =>
  form.length > factValueBytesMax || Buffer.byteLength(form) > factValueBytesMax;

/** `form`: by `factForm`. */
const commitmentTo = (path: string, salt: string, form: string): string =>
  `sha256:${sha256Hex(`agent-trust.fact.v1:${salt}:${path}:${form}`)}`;

/** What opens the commitment to a value, which is undefined where its path is absent. */
export function openingOf(
  path: string,
  salt: string,
  value: unknown,
): { readonly commitment: string; readonly opening: OpeningFact } {
  const form = factForm(value);
  const commitment = commitmentTo(path, salt, form);
  if (value === undefined) return { commitment, opening: { path, salt } };
  // No RFC 8785 form begins like that.
  if (form.startsWith('sha256:')) return { commitment, opening: { hashed: true, path, salt, value: form } };
  return { commitment, opening: { path, salt, value } };
}

/**
 * The commitment that it opens. Null: it is malformed, or longer than what is kept. Total, for what others
 * send.
 */
export function commitmentOf({ path, salt, value, hashed }: OpeningFact): string | null {
  if (hashed === true) return isHash(value) ? commitmentTo(path, salt, value) : null;
  const form = formOf(value);
  return form === null || isTooLong(form) ? null : commitmentTo(path, salt, form);
}

function formOf(value: unknown): string | null {
  try {
    return value === undefined ? '' : canonicalJson(value);
  } catch {
    // A lone surrogate, or deeper than the stack.
    return null;
  }
}

const isHash = (value: unknown): value is string =>
  typeof value === 'string' && /^sha256:[0-9a-f]{64}$/.test(value);

export const isFactSalt = (value: unknown): value is string =>
  typeof value === 'string' && /^[A-Za-z0-9_-]{21}[AQgw]$/.test(value);

const FactAnswer = closed({
  /** True: the path was absent, and `value` is null. */
  absent: Type.Optional(Type.Literal(true)),
  commitment: sha256Text,
  /** True: the RFC 8785 form of the value is longer than 1 KiB, and `value` is its hash. */
  hashed: Type.Optional(Type.Literal(true)),
  path: Type.String(),
  salt: Type.String(),
  value: Type.Unknown(),
});

/** `GET /attestations/:id/facts`, and the line after the record in an export with `facts=1`. */
export const FactsAnswer = closed({ attestation_id: Type.String(), facts: Type.Array(FactAnswer) });
export type FactsAnswer = Static<typeof FactsAnswer>;

/** The members in the order of RFC 8785. */
export function renderFact(fact: OpeningFact) {
  const { path, salt, value, hashed } = fact;
  return {
    ...(value === undefined && { absent: true as const }),
    commitment: commitmentOf(fact) ?? '',
    ...(hashed === true && { hashed }),
    path,
    salt,
    value: value ?? null,
  };
}
