import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { limits } from '../../model/limits.ts';
import { modes } from '../../model/mode.ts';
import type { Wire } from '../api/shape.ts';
import { IdOf } from './sync-schema.ts';

/**
 * `POST /v1/sync/tokens`: what a sidecar has met of other issuers (contract §4). It comes before records,
 * leases and settlements of these passports. Answers 200 `{ seen }`; 404 as of 0.2.0.
 */
export const ShownTokens = Type.Object({
  tokens: Type.Array(
    Type.Object({
      /** A bearer credential: never stored or logged. */
      token: Type.String({ maxLength: limits.tokenBytesMax }),
      mode: Type.Enum(modes),
      /** The issuer that the token fits at the gate where it was met. */
      issuer_id: IdOf('iss'),
    }),
    { maxItems: limits.shownTokensMax },
  ),
  /** Issuers whose tokens name a key that the sidecar lacks. */
  unknown_keys: Type.Array(IdOf('iss'), { maxItems: limits.federationsMax }),
});
export type ShownTokens = Wire<typeof ShownTokens>;

const seenShape = Compile(Type.Object({ seen: Type.Integer() }));

/** Of the answer. Null: it is none. */
export function parseSeenTokens(text: string): number | null {
  try {
    const answer: unknown = JSON.parse(text);
    return seenShape.Check(answer) ? answer.seen : null;
  } catch {
    return null;
  }
}
