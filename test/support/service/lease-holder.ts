import { randomBytes } from 'node:crypto';
import { sha256Hex } from '../../../shared/crypto/content-hash.ts';
import type { GateId, PassportId } from '../../../shared/model/ids.ts';
import type {
  LeaseCall,
  LeaseCounter,
  LeaseGrantBody,
  LeaseRequest,
  LeaseReturn,
} from '../../../shared/wire/sync/lease-call.ts';
import type { Api, Reply } from './api.ts';
import { type ConnectedSidecar, connectSidecar } from './test-sidecar.ts';

/**
 * A process of a sidecar as the quota ledger sees it. Each call has the next number; a change overrides the
 * call, its number too.
 */
export interface LeaseHolder {
  readonly holder: string;
  readonly sidecar: ConnectedSidecar;
  call(
    asks: readonly Partial<LeaseRequest>[],
    returns?: readonly Partial<LeaseReturn>[],
    change?: Partial<LeaseCall>,
  ): Promise<Reply>;
  /** Of a call that is answered 200. */
  lease(asks: readonly LeaseRequest[], returns?: readonly LeaseReturn[]): Promise<readonly LeaseGrantBody[]>;
}

export async function leaseHolder(
  api: Api,
  options: { readonly key?: string; readonly sidecar?: ConnectedSidecar } = {},
): Promise<LeaseHolder> {
  const sidecar = options.sidecar ?? (await connectSidecar(api, options));
  const holder = randomBytes(16).toString('hex');
  let seq = 0;
  const call: LeaseHolder['call'] = (asks, returns = [], change = {}) =>
    api.call({
      url: '/v1/sync/leases',
      key: sidecar.key,
      body: {
        sidecar_id: sidecar.sidecarId,
        connection_id: sidecar.connectionId,
        holder,
        seq: change.seq ?? ++seq,
        returns,
        asks,
        ...change,
      },
    });
  return {
    holder,
    sidecar,
    call,
    lease: async (asks, returns = []) => {
      const reply = await call(asks, returns);
      if (reply.status !== 200) throw new Error(`${reply.status} ${JSON.stringify(reply.body)}`);
      return reply.body.grants;
    },
  };
}

export const ofGate = (kind: 'gate_rate' | 'gate_spend', gateId: GateId): LeaseCounter => ({
  kind,
  gate_id: gateId,
  passport_id: null,
  token_hash: null,
});

/** Of a passport as it was issued: at a gate that counts each passport for itself, or its own limit. */
export const ofPassport = (
  kind: LeaseCounter['kind'],
  passport: { readonly passport_id: PassportId; readonly jwt: string },
  gateId: GateId | null = null,
): LeaseCounter => ({
  kind,
  gate_id: gateId,
  passport_id: passport.passport_id,
  token_hash: sha256Hex(passport.jwt),
});

/** All of `needed` or nothing. */
export const wish = (
  counter: LeaseCounter,
  window: LeaseRequest['window'],
  needed: number,
  change: Partial<LeaseRequest> = {},
): LeaseRequest => ({
  ...counter,
  window,
  units_min: needed,
  units_needed: needed,
  units_ahead: 0,
  ...change,
});
