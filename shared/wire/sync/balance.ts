import { type Static, Type } from 'typebox';

/**
 * `GET /v1/sync/leases/balance`, of the command alone: windows that are out of balance, those that lack most
 * units first. Units are requests or micro-USD (docs/operate/money-book.md).
 */
export const BalanceAnswer = Type.Object({
  total: Type.Integer(),
  windows: Type.Array(
    Type.Object({
      counter: Type.String(),
      window: Type.String(),
      starts_at_ms: Type.Integer(),
      leased: Type.Integer(),
      parts: Type.Integer(),
      lease: Type.Integer(),
      used: Type.Integer(),
      approval: Type.Integer(),
      hold: Type.Integer(),
      overrun: Type.Integer(),
      lanes: Type.Integer(),
    }),
  ),
});
export type BalanceAnswer = Static<typeof BalanceAnswer>;
