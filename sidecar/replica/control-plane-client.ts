import { isJsonObject } from '../../shared/crypto/json-object.ts';
import type { AccountId, SidecarId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { renderTraceHeaders, type TraceContext } from '../../shared/wire/api/trace-context.ts';
import type { SidecarCertificate, SidecarKeyCall } from '../../shared/wire/evidence/decision-receipt.ts';
import { clockOffsetHeader, renderClockOffset } from '../../shared/wire/sync/clock-offset.ts';
import {
  type DecisionTimes,
  decisionTimesHeader,
  renderDecisionTimes,
} from '../../shared/wire/sync/decision-times.ts';
import type { LeaseAnswer, LeaseCall } from '../../shared/wire/sync/lease-call.ts';
import { parseLeaseOutcome } from '../../shared/wire/sync/lease-call.ts';
import {
  type ProofClaim,
  type ProofClaims,
  parseProofClaimsAnswer,
} from '../../shared/wire/sync/proof-claim.ts';
import type { HistoryAnswer, Receipt } from '../../shared/wire/sync/receipt.ts';
import {
  parseSettlementAnswer,
  type Settlement,
  type SettlementAnswer,
  type SettlementCall,
} from '../../shared/wire/sync/settlement.ts';
import { parseSeenTokens, type ShownTokens } from '../../shared/wire/sync/shown-tokens.ts';
import { inForm1 } from '../../shared/wire/sync/spooled-record.ts';
import {
  type Position,
  renderSidecarAgent,
  type ShipAnswer,
  type SpooledRecord,
  syncVersion,
  syncVersionHeader,
} from '../../shared/wire/sync/sync.ts';
import {
  type AckRequest,
  type ConnectAnswer,
  type ConnectRequest,
  parseChangesAnswer,
  parseConnectAnswer,
  parseHistoryAnswer,
  parseShipAnswer,
  parseSidecarKeyAnswer,
  parseSignedSnapshot,
  type SealedChangesAnswer,
  type SealedEntry,
  type SignedSnapshot,
} from '../../shared/wire/sync/sync-schema.ts';
import { type CallerThread, callerThread } from './caller-thread.ts';
import { answerTrouble, ControlPlaneError, type ErrorBody } from './control-plane-error.ts';
import type { Answer, Call } from './http-caller.ts';
import { replicaLimits } from './limits.ts';
import { Reach } from './reach.ts';

/** This process as the control plane knows it. */
interface ControlPlaneConnection {
  readonly sidecarId: SidecarId;
  readonly accountId: AccountId;
  readonly connectionId: string;
}

/** What it was told. */
interface ShownHistory {
  readonly receipts: readonly Receipt[];
  readonly entries: readonly SealedEntry[];
}

interface ShownState {
  readonly signed: SignedSnapshot;
  readonly entries: readonly SealedEntry[];
}

/** The sender, in every call that only a connection may make. */
type Sender = Pick<SettlementCall, 'sidecar_id' | 'connection_id'>;

export interface ControlPlaneClientOptions {
  /** Without `/v1`. */
  readonly origin: string;
  /** With scope `sidecars:connect`. */
  readonly apiKey: string;
  readonly sidecarId: SidecarId;
  /** See ConnectRequest. Default: each connect is another process. */
  readonly process?: string;
  /** Of this machine; the control plane reports its offset. */
  readonly clock: Clock;
  /** Recent decision times, sent with pulls. Default: not sent. */
  readonly decisionTimes?: () => DecisionTimes | null;
  /** Offset of this machine's clock, sent with pulls; null: unknown. Default: not sent. */
  readonly clockOffsetMs?: () => number | null;
  /** Learns from every call. Default: one of its own. */
  readonly reach?: Reach;
  readonly logger: Logger;
}

/** Bound of answers other than snapshots and changes. */
const smallAnswerBytesMax = 1024 * 1024;

/**
 * The calls of a sidecar to the control plane. Each has a deadline and reads a bounded answer; none is
 * retried here. Each throws ControlPlaneError for an error answer, and the network's error for no answer.
 *
 *     unconnected ──connect──> connected ──goodbye, or the control plane knows it no more──> unconnected
 */
export class ControlPlaneClient {
  readonly #options: ControlPlaneClientOptions;
  readonly #caller: CallerThread;
  readonly #reach: Reach;
  #connection: ControlPlaneConnection | null = null;

  constructor(options: ControlPlaneClientOptions) {
    this.#options = options;
    this.#reach = options.reach ?? new Reach(options.clock);
    this.#caller = callerThread({
      origin: options.origin,
      headers: {
        authorization: `Bearer ${options.apiKey}`,
        'user-agent': renderSidecarAgent(packageVersion),
        [syncVersionHeader]: String(syncVersion),
      },
      logger: options.logger,
    });
  }

  /** See Reach. */
  get isAway(): boolean {
    return this.#reach.isAway;
  }

  /** Null until `connect` has succeeded, and again once the control plane has forgotten the connection. */
  get connection(): ControlPlaneConnection | null {
    return this.#connection;
  }

  /** Makes this process the only connected one of its sidecar id. */
  async connect(): Promise<ConnectAnswer> {
    const { sidecarId, clock, process } = this.#options;
    const body = {
      sync_version: syncVersion,
      sidecar_id: sidecarId,
      now_ms: clock.now(),
      ...(process === undefined ? {} : { process }),
    } satisfies ConnectRequest;
    const answer = await this.#ask(
      { path: 'connect', body: JSON.stringify(body), headers: this.#clockHeaders() },
      parseConnectAnswer,
    );
    this.#connection = { sidecarId, accountId: answer.account_id, connectionId: answer.connection_id };
    return answer;
  }

  snapshot(): Promise<SignedSnapshot> {
    return this.#ask(
      { path: 'snapshot', bytesMax: limits.snapshotBytesMax, timeMsMax: replicaLimits.snapshotMsMax },
      parseSignedSnapshot,
    );
  }

  /** `signal` ends it early. */
  changes({ account, global }: Position, waitMs: number, signal: AbortSignal): Promise<SealedChangesAnswer> {
    return this.#asConnected((sender) => {
      const query = new URLSearchParams({
        ...sender,
        account_after: String(account.revision),
        account_mark: account.mark,
        global_after: String(global.revision),
        global_mark: global.mark,
        wait_ms: String(waitMs),
      });
      const times = this.#options.decisionTimes?.() ?? null;
      return this.#ask(
        {
          path: `changes?${query}`,
          headers: {
            ...(times !== null && { [decisionTimesHeader]: renderDecisionTimes(times) }),
            ...this.#clockHeaders(),
          },
          bytesMax: limits.changesBytesMax,
          signal,
        },
        parseChangesAnswer,
      );
    });
  }

  ack({ account, global }: Position): Promise<void> {
    return this.#asConnected(async (sender) => {
      const body = {
        ...sender,
        account_revision: account.revision,
        account_mark: account.mark,
        global_revision: global.revision,
        global_mark: global.mark,
      } satisfies AckRequest;
      await this.#ask({ path: 'ack', body: JSON.stringify(body) }, () => true);
    });
  }

  /** Null: this control plane is of a version that keeps no history. */
  async reportHistory(report: ShownHistory): Promise<HistoryAnswer | null> {
    const answer = await this.#call({ path: 'history', body: JSON.stringify(report) });
    if (answer.status === 404) return null;
    const parsed = answer.status === 200 ? parseHistoryAnswer(answer.text) : null;
    if (parsed === null) throw errorOf('history', answer);
    return parsed;
  }

  /** A state that was in force here and went back there. */
  async handOver(state: ShownState): Promise<void> {
    await this.#ask(
      { path: 'history/state', body: JSON.stringify(state), timeMsMax: replicaLimits.snapshotMsMax },
      () => true,
    );
  }

  /** Null: this control plane certifies no keys, as of 0.2.0. */
  certifyKey(claim: Pick<SidecarKeyCall, 'x' | 'signature'>): Promise<SidecarCertificate | null> {
    return this.#asConnected(async (sender) => {
      const body = JSON.stringify({ ...sender, ...claim } satisfies SidecarKeyCall);
      const answer = await this.#call({ path: 'receipt-key', body });
      if (answer.status === 404) return null;
      const parsed = answer.status === 200 ? parseSidecarKeyAnswer(answer.text) : null;
      if (parsed === null) throw errorOf('receipt-key', answer);
      return parsed.certificate;
    });
  }

  /** Announces that this process stops, so that it does not count as missing. Ends the connection. */
  sayGoodbye(): Promise<void> {
    return this.#asConnected(async (sender, speaker) => {
      const body = JSON.stringify(sender);
      await this.#ask({ path: 'goodbye', body, timeMsMax: replicaLimits.goodbyeMsMax }, () => true);
      this.#forget(speaker);
    });
  }

  /**
   * `body`: UTF-8 JSON of an AttestationBatch. Throws for every answer that is not about the batch. `onOver`:
   * as in `CallerThread.attempt`.
   */
  async shipAttestations(body: Uint8Array, onOver: () => void = () => undefined): Promise<ShipAnswer> {
    const speaker = this.#connection;
    let answer = await this.#call({ path: 'attestations', body, onOver });
    if (answer.status === 400 && errorOf('attestations', answer).isOfEarlierForm)
      answer = await this.#call({ path: 'attestations', body: batchInForm1(body) });
    const parsed = parseShipAnswer(answer.status, answer.text);
    if (parsed === null) throw errorOf('attestations', answer);
    if (parsed.kind === 'reconnect') this.#forget(speaker);
    return parsed;
  }

  /**
   * Needs the newest connection. Within `replicaLimits.quotaCallMsMax`; throws for every answer that is not
   * about the call.
   */
  lease(call: Omit<LeaseCall, keyof Sender>): Promise<LeaseAnswer | 'holder_unknown' | 'overloaded'> {
    return this.#asConnected(async (sender) => {
      const answer = await this.#call({
        path: 'leases',
        body: JSON.stringify({ ...sender, ...call } satisfies LeaseCall),
        bytesMax: limits.leaseCallBytesMax,
        timeMsMax: replicaLimits.quotaCallMsMax,
      });
      const outcome = parseLeaseOutcome(answer.status, answer.text);
      if (outcome?.kind === 'granted') return outcome.answer;
      if (outcome?.kind === 'holder_unknown') return 'holder_unknown';
      const error = errorOf('leases', answer);
      if (error.code === 'overloaded') return 'overloaded';
      throw error;
    });
  }

  /**
   * One attempt at settlements of units that this holder took. Needs the newest connection. Throws if their
   * outcome is unknown. `trace`: to which the call belongs.
   */
  settle(
    settlements: readonly Settlement[],
    holder: string,
    trace: TraceContext | null = null,
  ): Promise<readonly SettlementAnswer[]> {
    return this.#asConnected(async (sender) => {
      const settle = async (call: Pick<SettlementCall, 'form' | 'settlements'>) => {
        const body = JSON.stringify({ ...sender, holder, ...call } satisfies SettlementCall);
        const { answers } = await this.#ask(
          {
            ...{ path: 'settlements', body, by: 'settlements', timeMsMax: replicaLimits.quotaCallMsMax },
            ...(trace !== null && { headers: renderTraceHeaders(trace) }),
          },
          parseSettlementAnswer,
        );
        return answers;
      };
      if (!settlements.some(isInForm2)) return settle({ settlements });
      try {
        return await settle({ form: 2, settlements });
      } catch (error) {
        if (!(error instanceof ControlPlaneError && error.isOfEarlierForm)) throw error;
        return settle({ settlements: settlements.map(settlementInForm1) });
      }
    });
  }

  /** In the order of the claims: whether each is the first use of its proof. Throws if that is not known. */
  claimProofs(proofs: readonly ProofClaim[]): Promise<readonly boolean[]> {
    return this.#asConnected((sender) =>
      this.#ask(
        {
          path: 'proofs',
          body: JSON.stringify({ ...sender, proofs } satisfies ProofClaims),
          timeMsMax: replicaLimits.quotaCallMsMax,
        },
        (text) => parseProofClaimsAnswer(text, proofs.length),
      ),
    );
  }

  /** Shows tokens of other issuers, which are in no log and no error. Returns how many verified there. */
  showTokens(shown: ShownTokens): Promise<number> {
    const timeMsMax = replicaLimits.quotaCallMsMax;
    return this.#ask({ path: 'tokens', body: JSON.stringify(shown), timeMsMax }, parseSeenTokens);
  }

  close(): Promise<void> {
    return this.#caller.close();
  }

  async #call({ signal, onOver, ...request }: Request): Promise<Answer> {
    const sentAtMs = this.#options.clock.monotonic();
    try {
      const answer = await this.#caller.attempt({ ...usual, ...request }, signal, onOver);
      // A control plane without its database counts as away.
      if (answer.status < 500 || readError(answer.text)?.code === 'overloaded') this.#reach.noteAnswer();
      else this.#reach.noteAway({ sentAtMs, canConnect: true });
      return answer;
    } catch (error) {
      const canConnect = !hasCode(error, 'ECONNREFUSED');
      // A call ended by its own caller says nothing about the control plane.
      if (signal?.aborted !== true) this.#reach.noteAway({ sentAtMs, canConnect });
      throw error;
    }
  }

  /** For calls that have one good answer. */
  async #ask<T>(request: Request, parse: (text: string) => T | null): Promise<T> {
    const answer = await this.#call(request);
    const parsed = answer.status === 200 ? parse(answer.text) : null;
    if (parsed === null) throw errorOf(request.path, answer);
    return parsed;
  }

  /**
   * For calls of a connection. Drops a connection that the control plane has forgotten, unless there is a
   * newer one.
   */
  async #asConnected<T>(speak: (sender: Sender, as: ControlPlaneConnection) => Promise<T>): Promise<T> {
    const speaker = this.#connection;
    if (speaker === null) throw new Error('not connected to the control plane yet');
    const sender = { sidecar_id: speaker.sidecarId, connection_id: speaker.connectionId };
    try {
      return await speak(sender, speaker);
    } catch (error) {
      if (error instanceof ControlPlaneError && error.code === 'connection_unknown') this.#forget(speaker);
      throw error;
    }
  }

  #forget(speaker: ControlPlaneConnection | null): void {
    if (this.#connection === speaker) this.#connection = null;
  }

  #clockHeaders(): Record<string, string> {
    const offsetMs = this.#options.clockOffsetMs?.() ?? null;
    return offsetMs === null ? {} : { [clockOffsetHeader]: renderClockOffset(offsetMs) };
  }
}

/**
 * For a control plane that was rolled back. What it lacks is lost; spooled until it comes back, records would
 * fill the spool, and a full spool ends all decisions.
 */
function batchInForm1(body: Uint8Array): Uint8Array {
  // Copied, because it may be shared memory, which a decoder refuses.
  const { form: _, records, ...envelope } = JSON.parse(Buffer.from(body).toString());
  return Buffer.from(JSON.stringify({ ...envelope, records: records.map(inForm1) }));
}

const isInForm2 = (settlement: Settlement): boolean =>
  settlement.kind === 'permit' && settlement.record.policy_hash !== undefined;

const settlementInForm1 = (settlement: Settlement): Settlement =>
  settlement.kind === 'permit'
    ? { ...settlement, record: inForm1(settlement.record) as SpooledRecord }
    : settlement;

/** A call; absent members have defaults. */
interface Request extends Pick<Call, 'path'>, Partial<Omit<Call, 'path'>> {
  /** Ends the call before its deadline does. */
  readonly signal?: AbortSignal;
  readonly onOver?: () => void;
}

const usual: Omit<Call, 'path'> = {
  body: null,
  headers: {},
  bytesMax: smallAnswerBytesMax,
  timeMsMax: limits.internalCallMsMax,
  by: 'others',
};

function errorOf(path: string, answer: Answer): ControlPlaneError {
  // Without the query, which contains a connection id.
  const what = path.split('?')[0] ?? path;
  const error = readError(answer.text);
  return new ControlPlaneError(what, answer.status, error, error === null ? answerTrouble(answer) : null);
}

function readError(text: string): ErrorBody | null {
  try {
    const body: unknown = JSON.parse(text);
    const error = isJsonObject(body) ? body['error'] : null;
    if (!isJsonObject(error)) return null;
    const { code, message, param } = error;
    if (typeof code !== 'string' || typeof message !== 'string') return null;
    return { code, message, param: typeof param === 'string' ? param : null };
  } catch {
    return null;
  }
}
