import { isJsonObject } from '../../shared/crypto/json-object.ts';
import type { AccountId, SidecarId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { clockOffsetHeader, renderClockOffset } from '../../shared/wire/clock-offset.ts';
import {
  type DecisionTimes,
  decisionTimesHeader,
  renderDecisionTimes,
} from '../../shared/wire/decision-times.ts';
import type { LeaseAnswer, LeaseCall } from '../../shared/wire/lease-call.ts';
import { parseLeaseOutcome } from '../../shared/wire/lease-call.ts';
import {
  parseSettlementAnswer,
  type Settlement,
  type SettlementAnswer,
  type SettlementCall,
} from '../../shared/wire/settlement.ts';
import { type Position, renderSidecarAgent, type ShipAnswer, syncVersion } from '../../shared/wire/sync.ts';
import {
  type AckRequest,
  type ConnectAnswer,
  type ConnectRequest,
  parseChangesAnswer,
  parseConnectAnswer,
  parseShipAnswer,
  parseSignedSnapshot,
  type SealedChangesAnswer,
  type SignedSnapshot,
} from '../../shared/wire/sync-schema.ts';
import { answerTrouble } from './answer-trouble.ts';
import { callerThread } from './caller-thread.ts';
import { ControlPlaneError, type ErrorBody } from './control-plane-error.ts';
import type { Answer, Call } from './http-caller.ts';
import { replicaLimits } from './limits.ts';
import { Reach } from './reach.ts';

/** As what the control plane knows this process. */
interface ControlPlaneConnection {
  readonly sidecarId: SidecarId;
  readonly accountId: AccountId;
  readonly connectionId: string;
}

/**
 * The control plane, as a sidecar calls it. Every call has a deadline and reads a bounded answer; none is
 * repeated here. Each throws ControlPlaneError for an answer that is an error, and whatever the network says
 * for none.
 */
export interface ControlPlaneClient {
  /** See Reach. */
  readonly isAway: boolean;
  /**
   * Null until `connect` has succeeded, and again where the control plane does not know the connection any
   * more.
   */
  readonly connection: ControlPlaneConnection | null;
  /** Makes this process the only connected one of its sidecar id. */
  connect(): Promise<ConnectAnswer>;
  snapshot(): Promise<SignedSnapshot>;
  /** `signal` ends it early. */
  changes(after: Position, waitMs: number, signal: AbortSignal): Promise<SealedChangesAnswer>;
  ack(applied: Position): Promise<void>;
  /** Says that this process stops, and is not missing from now on. Ends its connection. */
  sayGoodbye(): Promise<void>;
  /**
   * `body`: UTF-8 JSON of an AttestationBatch. Throws for every answer that says nothing about the batch.
   * `onOver`: as in `CallerThread.attempt`.
   */
  shipAttestations(body: Uint8Array, onOver?: () => void): Promise<ShipAnswer>;
  /**
   * As the newest connection. Within `replicaLimits.quotaCallMsMax`; throws for every answer that is not one
   * to the call.
   */
  lease(call: Omit<LeaseCall, keyof Sender>): Promise<LeaseAnswer | 'holder_unknown'>;
  /**
   * One attempt, as the newest connection, of settlements for which that holder has taken. Throws where
   * nothing is known of their outcome.
   */
  settle(settlements: readonly Settlement[], holder: string): Promise<readonly SettlementAnswer[]>;
  close(): Promise<void>;
}

/** The sender, in every call that only a connection may make. */
type Sender = Pick<SettlementCall, 'sidecar_id' | 'connection_id'>;

export interface ControlPlaneClientOptions {
  /** Without `/v1`. */
  readonly origin: string;
  /** With scope `sidecars:connect`. */
  readonly apiKey: string;
  readonly sidecarId: SidecarId;
  /** Of this machine: the control plane reports by how much it is off. */
  readonly clock: Clock;
  /** How long its decisions took lately, for its pulls. Default: it does not say. */
  readonly decisionTimes?: () => DecisionTimes | null;
  /** By how much the clock of this machine is off, for its pulls; null: not known. Default: not said. */
  readonly clockOffsetMs?: () => number | null;
  /** Learns from every call. Default: nothing else learns from them. */
  readonly reach?: Reach;
  readonly logger: Logger;
}

/** Answers that are read whole, but are never larger. */
const smallAnswerBytesMax = 1024 * 1024;

export function controlPlaneClient(options: ControlPlaneClientOptions): ControlPlaneClient {
  const { sidecarId, clock } = options;
  const caller = callerThread({
    origin: options.origin,
    headers: {
      authorization: `Bearer ${options.apiKey}`,
      'user-agent': renderSidecarAgent(packageVersion),
    },
    logger: options.logger,
  });
  let connection: ControlPlaneConnection | null = null;

  const { reach = new Reach(clock) } = options;
  const call = async ({ signal, onOver, ...request }: Request): Promise<Answer> => {
    const sentAtMs = clock.monotonic();
    try {
      const answer = await caller.attempt({ ...usual, ...request }, signal, onOver);
      // The program may be there while its database is not: the same to a caller.
      if (answer.status < 500 || readError(answer.text)?.code === 'overloaded') reach.noteAnswer();
      else reach.noteAway({ sentAtMs, canConnect: true });
      return answer;
    } catch (error) {
      // One that was ended by its own caller says nothing about the control plane.
      if (signal?.aborted !== true) reach.noteAway({ sentAtMs, canConnect: !hasCode(error, 'ECONNREFUSED') });
      throw error;
    }
  };

  /** For calls that have one good answer. */
  const ask = async <T>(request: Request, parse: (text: string) => T | null): Promise<T> => {
    const answer = await call(request);
    const parsed = answer.status === 200 ? parse(answer.text) : null;
    if (parsed === null) throw errorOf(request.path, answer);
    return parsed;
  };

  /**
   * For calls of a connection: forgets it where the control plane has, unless there is a newer one already.
   */
  const asConnected = async <T>(speak: (as: ControlPlaneConnection) => Promise<T>): Promise<T> => {
    const speaker = connection;
    if (speaker === null) throw new Error('not connected to the control plane yet');
    try {
      return await speak(speaker);
    } catch (error) {
      if (error instanceof ControlPlaneError && error.code === 'connection_unknown') forget(speaker);
      throw error;
    }
  };
  const clockHeaders = (): Record<string, string> => {
    const offsetMs = options.clockOffsetMs?.() ?? null;
    return offsetMs === null ? {} : { [clockOffsetHeader]: renderClockOffset(offsetMs) };
  };
  const forget = (speaker: ControlPlaneConnection | null): void => {
    if (connection === speaker) connection = null;
  };

  return {
    get isAway() {
      return reach.isAway;
    },
    get connection() {
      return connection;
    },
    connect: async () => {
      const body = {
        sync_version: syncVersion,
        sidecar_id: sidecarId,
        now_ms: clock.now(),
      } satisfies ConnectRequest;
      const answer = await ask(
        { path: 'connect', body: JSON.stringify(body), headers: clockHeaders() },
        parseConnectAnswer,
      );
      connection = { sidecarId, accountId: answer.account_id, connectionId: answer.connection_id };
      return answer;
    },
    snapshot: () =>
      ask(
        {
          path: 'snapshot',
          bytesMax: replicaLimits.snapshotBytesMax,
          timeMsMax: replicaLimits.snapshotMsMax,
        },
        parseSignedSnapshot,
      ),
    changes: ({ account, global }, waitMs, signal) =>
      asConnected(({ connectionId }) => {
        const query = new URLSearchParams({
          sidecar_id: sidecarId,
          connection_id: connectionId,
          account_after: String(account.revision),
          account_mark: account.mark,
          global_after: String(global.revision),
          global_mark: global.mark,
          wait_ms: String(waitMs),
        });
        const times = options.decisionTimes?.() ?? null;
        return ask(
          {
            path: `changes?${query}`,
            headers: {
              ...(times !== null && { [decisionTimesHeader]: renderDecisionTimes(times) }),
              ...clockHeaders(),
            },
            bytesMax: replicaLimits.changesBytesMax,
            signal,
          },
          parseChangesAnswer,
        );
      }),
    ack: ({ account, global }) =>
      asConnected(async ({ connectionId }) => {
        const body = {
          sidecar_id: sidecarId,
          connection_id: connectionId,
          account_revision: account.revision,
          account_mark: account.mark,
          global_revision: global.revision,
          global_mark: global.mark,
        } satisfies AckRequest;
        await ask({ path: 'ack', body: JSON.stringify(body) }, () => true);
      }),
    sayGoodbye: () =>
      asConnected(async (speaker) => {
        const { connectionId } = speaker;
        const body = JSON.stringify({ sidecar_id: sidecarId, connection_id: connectionId });
        await ask({ path: 'goodbye', body, timeMsMax: replicaLimits.goodbyeMsMax }, () => true);
        forget(speaker);
      }),
    shipAttestations: async (body, onOver = () => undefined) => {
      const speaker = connection;
      const answer = await call({ path: 'attestations', body, onOver });
      const parsed = parseShipAnswer(answer.status, answer.text);
      if (parsed === null) throw errorOf('attestations', answer);
      if (parsed.kind === 'reconnect') forget(speaker);
      return parsed;
    },
    lease: (body) =>
      asConnected(async ({ connectionId }) => {
        const answer = await call({
          path: 'leases',
          body: JSON.stringify({
            sidecar_id: sidecarId,
            connection_id: connectionId,
            ...body,
          } satisfies LeaseCall),
          bytesMax: limits.leaseCallBytesMax,
          timeMsMax: replicaLimits.quotaCallMsMax,
        });
        const outcome = parseLeaseOutcome(answer.status, answer.text);
        if (outcome?.kind === 'granted') return outcome.answer;
        if (outcome?.kind === 'holder_unknown') return 'holder_unknown';
        throw errorOf('leases', answer);
      }),
    settle: (settlements, holder) =>
      asConnected(async ({ connectionId }) => {
        const speaker = { sidecar_id: sidecarId, connection_id: connectionId, holder };
        const body = { ...speaker, settlements } satisfies SettlementCall;
        const { answers } = await ask(
          {
            path: 'settlements',
            body: JSON.stringify(body),
            by: 'settlements',
            timeMsMax: replicaLimits.quotaCallMsMax,
          },
          parseSettlementAnswer,
        );
        return answers;
      }),
    close: () => caller.close(),
  };
}

/** A call, as far as it is not like most. */
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
  // Without the query, which holds a connection id.
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
