/**
 * Room `control-plane/mcp-pins`: tools of MCP servers that guards have seen (contract §16): reports here,
 * `resolve-pin.ts` has a person's answers. SQL in `pin-store.ts`.
 */

import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { piiTypes } from '../../shared/model/constraints.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { McpChange } from '../../shared/model/mcp-pin.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { lookOf } from '../../shared/wire/api/look-alike.ts';
import {
  type McpToolReport,
  type McpToolReportAnswer,
  renderGuardPin,
  renderMcpPinItem,
} from '../../shared/wire/api/mcp-pin.ts';
import { type McpTool, parseMcpTool } from '../../shared/wire/api/mcp-tool.ts';
import type { Transaction } from '../base/database.ts';
import { noteHints } from '../events/note-hints.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { emitEvents } from '../webhooks/emit-events.ts';
import { mcpPinsLimits } from './limits.ts';
import {
  findGuardedGate,
  findUpstream,
  keepGate,
  lockUpstream,
  readPins,
  type StoredPin,
  type Upstream,
  writePin,
  writeUpstream,
} from './pin-store.ts';

type ReportDeps = Pick<SigningDeps, 'sql' | 'clock' | 'random' | 'baseUrl'>;

interface Reported extends McpTool {
  readonly isReadded: boolean;
}

/**
 * Takes a guard's report, and answers the pins of its upstream. A tool of a new upstream is pinned as it is;
 * afterwards, whatever is not as it was pinned waits for a person. Reports of one upstream are taken one
 * after the other, so of two guards at first sight one pins, and the other is compared with it. A report that
 * changes nothing writes nothing.
 */
export async function reportTools(
  deps: ReportDeps,
  caller: Caller,
  gateId: GateId,
  report: McpToolReport,
): Promise<McpToolReportAnswer> {
  const gate = await findGuardedGate(deps.sql, caller, gateId);
  if (gate === null) throw new ApiError('gate_not_found', { param: 'gate_id' });
  const tools = readTools(report);
  const known = await findUpstream(deps.sql, gateId, report.upstream);
  const isWhole = report.is_whole === true;
  const isQuestion = tools.length === 0 && (!isWhole || known?.isEstablished !== false);
  const upstream =
    isQuestion && (known !== null || !isWhole)
      ? known
      : await deps.sql.begin((tx) => take(tx, deps, { caller, gateId, report, tools, isWhole }));
  const { mode, types = piiTypes } = gate.piiControls ?? {};
  const isKnown = upstream !== null && upstream.revision === report.revision;
  return {
    revision: upstream?.revision ?? 0,
    pins: isKnown
      ? null
      : upstream === null
        ? []
        : (await readPins(deps.sql, upstream)).map((pin) => renderGuardPin(pin, deps.baseUrl)),
    pii_controls: mode === undefined ? null : { mode, types: [...types] },
  };
}

function readTools({ tools }: McpToolReport): readonly Reported[] {
  let bytes = 0;
  return tools.map(({ definition, readded = false }, at) => {
    bytes += Buffer.byteLength(definition);
    const tool = parseMcpTool(definition);
    const param = `tools.${at}.definition`;
    if (tool === null) throw invalidRequest(param, `${param} must be a tool in the form of RFC 8785.`);
    if (bytes > limits.mcpReportBytesMax)
      throw invalidRequest('tools', `tools must be at most ${limits.mcpReportBytesMax} bytes together.`);
    return { ...tool, isReadded: readded };
  });
}

interface Taken {
  readonly caller: Caller;
  readonly gateId: GateId;
  readonly report: McpToolReport;
  readonly tools: readonly Reported[];
  readonly isWhole: boolean;
}

async function take(tx: Transaction, deps: ReportDeps, taken: Taken): Promise<Upstream> {
  const { caller, gateId, report, tools, isWhole } = taken;
  if (!(await keepGate(tx, gateId))) throw new ApiError('gate_not_found', { param: 'gate_id' });
  const nowMs = deps.clock.now();
  const locked = await lockUpstream(
    tx,
    { gateId, upstream: report.upstream },
    { nowMs, upstreamsMax: mcpPinsLimits.upstreamsPerGateMax },
  );
  if (locked === null) {
    const message = `A gate has pins of at most ${mcpPinsLimits.upstreamsPerGateMax} upstreams.`;
    throw new ApiError('mcp_pins_full', { message });
  }
  const isFirstSight = !locked.isEstablished && nowMs < locked.firstSeenAtMs + mcpPinsLimits.firstSightMsMax;
  const pins = new Pins(await readPins(tx, locked));
  const asked: StoredPin[] = [];
  for (const tool of tools) {
    const before = pins.of(tool.name);
    // It has no pin then, and a guard that enforces refuses it.
    if (before === null && pins.size === limits.mcpPinsPerUpstreamMax) continue;
    const empty = before ?? newPin(tool, { caller, upstream: locked, deps, nowMs });
    const pin = pinAfter(empty, tool, { isNew: before === null, isFirstSight, pins, nowMs });
    if (pin === before) continue;
    pins.put(pin);
    if (pin.status === 'changed' && before?.status !== 'changed') asked.push(pin);
  }
  for (const pin of pins.written()) await writePin(tx, pin);
  const isEstablished = locked.isEstablished || isWhole;
  const isChanged = pins.written().length > 0 || isEstablished !== locked.isEstablished;
  if (!isChanged) return locked;
  const upstream = { ...locked, isEstablished, revision: locked.revision + 1 };
  await tellOf(tx, deps, { asked, written: pins.written() }, nowMs);
  await writeUpstream(tx, upstream);
  return upstream;
}

/** Of an upstream, with those that this report writes. */
class Pins {
  readonly #byTool: Map<string, StoredPin>;
  readonly #written = new Map<string, StoredPin>();

  constructor(pins: readonly StoredPin[]) {
    this.#byTool = new Map(pins.map((pin) => [pin.tool, pin]));
  }

  get size(): number {
    return this.#byTool.size;
  }

  of(tool: string): StoredPin | null {
    return this.#byTool.get(tool) ?? null;
  }

  put(pin: StoredPin): void {
    this.#byTool.set(pin.tool, pin);
    this.#written.set(pin.tool, pin);
  }

  written(): readonly StoredPin[] {
    return [...this.#written.values()].sort((one, other) => (one.tool < other.tool ? -1 : 1));
  }

  /** The tool that a new one is taken for, or once was. */
  resembling({ name, bodyHash }: McpTool): Pick<StoredPin, 'change' | 'resembles'> | null {
    const look = lookOf(name);
    const others = [...this.#byTool.values()].filter(({ tool, hash }) => tool !== name && hash !== null);
    const alike = others.find((other) => other.look === look);
    if (alike !== undefined) return { change: 'look_alike', resembles: alike.tool };
    const same = others.find((other) => other.bodyHash === bodyHash);
    return same === undefined ? null : { change: 'renamed', resembles: same.tool };
  }
}

interface Circumstances {
  readonly isNew: boolean;
  readonly isFirstSight: boolean;
  readonly pins: Pins;
  readonly nowMs: UnixMillis;
}

/** The pin itself: nothing has changed. */
function pinAfter(pin: StoredPin, tool: Reported, of: Circumstances): StoredPin {
  const { isNew, isFirstSight, pins, nowMs } = of;
  const waiting = (change: McpChange, resembles: string | null): StoredPin => ({
    ...pin,
    status: 'changed',
    newDefinition: tool.definition,
    newHash: tool.hash,
    change,
    resembles,
    changedAtMs: nowMs,
  });
  if (isNew) {
    const resembling = pins.resembling(tool);
    // In a first list many tools may have the same body; two that look alike are too many in any list.
    if (resembling?.change === 'look_alike' || !isFirstSight) {
      return waiting(resembling?.change ?? 'added', resembling?.resembles ?? null);
    }
    return { ...pin, definition: tool.definition, hash: tool.hash, bodyHash: tool.bodyHash };
  }
  if (tool.isReadded && pin.status === 'pinned' && tool.hash === pin.hash) return waiting('readded', null);
  const isKnown = tool.hash === pin.hash || tool.hash === pin.newHash;
  if (isKnown) return pin;
  return pin.hash === null ? waiting(pin.change ?? 'added', pin.resembles) : waiting('changed', null);
}

function newPin(
  tool: McpTool,
  made: {
    readonly caller: Caller;
    readonly upstream: Upstream;
    readonly deps: Pick<ReportDeps, 'random'>;
    readonly nowMs: UnixMillis;
  },
): StoredPin {
  const { caller, upstream, deps, nowMs } = made;
  return {
    pinId: deps.random.newId('mpin', nowMs),
    accountId: caller.accountId,
    mode: caller.mode,
    gateId: upstream.gateId,
    upstream: upstream.upstream,
    tool: tool.name,
    look: lookOf(tool.name),
    status: 'pinned',
    definition: null,
    hash: null,
    bodyHash: null,
    newDefinition: null,
    newHash: null,
    change: null,
    resembles: null,
    firstSeenAtMs: nowMs,
    changedAtMs: null,
    resolvedAtMs: null,
    resolvedBy: null,
  };
}

/** An event once for each tool that begins to wait, however often it changes until a person answers. */
async function tellOf(
  tx: Transaction,
  deps: ReportDeps,
  { asked, written }: { readonly asked: readonly StoredPin[]; readonly written: readonly StoredPin[] },
  nowMs: UnixMillis,
): Promise<void> {
  const events = asked.map((pin) => ({
    event: 'mcp_pin.changed' as const,
    to: [{ accountId: pin.accountId, mode: pin.mode }],
    data: renderMcpPinItem(pin, deps.baseUrl),
    timestampMs: nowMs,
  }));
  await emitEvents(tx, deps, events);
  const [first, ...others] = written;
  if (first === undefined) return;
  const { accountId, mode, pinId } = first;
  noteHints(tx, [{ accountId, mode, type: 'mcp_pin', id: others.length === 0 ? pinId : null }]);
}
