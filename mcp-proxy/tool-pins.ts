import { LRUCache } from 'lru-cache';
import type { AgentTrustError } from '../clients/node/src/errors.ts';
import type { McpGuardPin, McpToolReport, McpToolReportResult } from '../clients/node/src/generated/api.ts';
import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { PiiControls } from '../shared/model/constraints.ts';
import { limits } from '../shared/model/limits.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { type McpTool, readMcpTool } from '../shared/wire/api/mcp-tool.ts';
import { proxyLimits } from './limits.ts';
import { ToolViews } from './tool-views.ts';

export type PinMode = 'observe' | 'enforce';

export interface ToolPinsOptions {
  readonly mode: PinMode;
  readonly gate: string;
  /** As the control plane keeps it apart from other servers behind the gate. */
  readonly upstream: string;
  /** Sends a report to the control plane. Rejects where it does not answer, or refuses. */
  readonly report: (report: McpToolReport) => Promise<McpToolReportResult>;
  readonly logger: Logger;
}

/** A call that was not answered as asked for. `status` null: there was no answer. */
export interface Refused {
  readonly status: number | null;
  readonly code: string;
  readonly detail: string;
}

/** Why a tool is refused. */
export interface PinRefusal {
  readonly reason:
    | 'tool_changed'
    | 'tool_not_accepted'
    | 'tool_unknown'
    | 'tools_changed'
    | 'pins_unavailable';
  /** Sentences for people and models, with what to do. */
  readonly message: string;
  readonly pinId: string | null;
  readonly pinUrl: string | null;
}

/** Stands for a definition that cannot be pinned: too large, too deep, or twice in a list. */
const unpinnable = 'unpinnable';

/**
 * The pins of one upstream, and what its tools look like now. Pins are those of the control plane: known ones
 * stay in force while it is away, and a tool without one is refused where pins are enforced. `observe` only
 * reports.
 */
export class ToolPins {
  readonly views = new ToolViews();
  readonly #options: ToolPinsOptions;
  #pins = new Map<string, McpGuardPin>();
  /** By tool, the hash that the server showed last. */
  readonly #seen = new Map<string, string>();
  /** Back after they were gone, and the control plane does not know yet. */
  readonly #readded = new Set<string>();
  /** The control plane knows that a list was whole. */
  #wasWhole = false;
  #revision: number | null = null;
  #pii: PiiControls | null | 'unknown' = 'unknown';
  #readAtMs = Number.NEGATIVE_INFINITY;
  /** Reports go one after the other. */
  #last: Promise<void> = Promise.resolve();
  readonly #warned = new LRUCache<string, true>({ max: proxyLimits.seenToolsMax });

  constructor(options: ToolPinsOptions) {
    this.#options = options;
  }

  get enforces(): boolean {
    return this.#options.mode === 'enforce';
  }

  /** Of the gate. `unknown` until the control plane has answered for the first time. */
  get piiControls(): PiiControls | null | 'unknown' {
    return this.#pii;
  }

  /** Reads the pins for the first time; null: they are known. Never rejects. */
  async readAtStart(): Promise<Refused | null> {
    let refused: Refused | null = null;
    await this.#inTurn(async () => {
      refused = await this.#send([], false);
    });
    return refused;
  }

  /**
   * Reads the pins, unless a reading began less than so long before this call; those that ask meanwhile share
   * one. Never rejects.
   */
  async refresh(ageMsMax: number): Promise<void> {
    const sinceMs = performance.now() - ageMsMax;
    if (this.#readAtMs > sinceMs) return;
    await this.#inTurn(async () => {
      if (this.#readAtMs <= sinceMs) await this.#sendOrWarn([], false);
    });
  }

  /**
   * Takes note of the tools of an answer, and tells the control plane what is new. Answers which of them the
   * client may see; all of them with `observe`, which waits for nothing.
   */
  async see(view: string, result: JsonObject): Promise<readonly unknown[]> {
    const seenAtMs = performance.now();
    const given: readonly unknown[] = Array.isArray(result['tools']) ? result['tools'] : [];
    const tools = given.map(readMcpTool);
    const { readded, isWhole } = this.views.see(view, namesOf(given), result['nextCursor'] !== undefined);
    this.#note(given, tools);
    for (const name of readded) if (this.#pins.has(name)) this.#readded.add(name);
    const told = this.#inTurn(() => this.#tell(tools, isWhole));
    if (!this.enforces) {
      void this.refresh(proxyLimits.pinsMsMax);
      return given;
    }
    await told;
    const mayBeAccepted = tools.some((tool) => tool !== null && this.#judge(null, tool.name)?.pinId != null);
    if (mayBeAccepted) await this.refresh(performance.now() - seenAtMs);
    const twice = namesTwice(tools);
    return given.filter((_, at) => {
      const tool = tools[at];
      return (
        tool !== null && tool !== undefined && !twice.has(tool.name) && this.#judge(null, tool.name) === null
      );
    });
  }

  /** Null: the call may pass. Reads the pins before it refuses: an acceptance counts for the next call. */
  async refusalOf(view: string, tool: string): Promise<PinRefusal | null> {
    if (!this.enforces) return null;
    const refusal = this.#judge(view, tool);
    if (refusal === null) {
      void this.refresh(proxyLimits.pinsMsMax);
      return null;
    }
    await this.refresh(refusal.pinId === null ? proxyLimits.pinsPauseMs : 0);
    return this.#judge(view, tool);
  }

  /** The same, with what is known: what has changed while a call was decided. */
  refusalNow(view: string, tool: string): PinRefusal | null {
    return this.enforces ? this.#judge(view, tool) : null;
  }

  #judge(view: string | null, tool: string): PinRefusal | null {
    if (this.#revision === null) return refuse('pins_unavailable', unavailable);
    if (view !== null && this.views.isStale(view)) return refuse('tools_changed', stale);
    const pin = this.#pins.get(tool);
    const seen = this.#seen.get(tool);
    if (pin === undefined) {
      const isFull = this.#pins.size >= limits.mcpPinsPerUpstreamMax;
      return refuse('tool_unknown', seen === unpinnable ? tooOdd : isFull ? tooMany : unlisted);
    }
    const isAsShown = (seen === undefined || seen === pin.hash) && !this.#readded.has(tool);
    if (pin.hash !== null && pin.status !== 'changed' && isAsShown) return null;
    return {
      reason: pin.hash === null ? 'tool_not_accepted' : 'tool_changed',
      message: sentenceOf(pin),
      pinId: pin.pin_id,
      pinUrl: pin.pin_url,
    };
  }

  #note(given: readonly unknown[], tools: readonly (McpTool | null)[]): void {
    const twice = namesTwice(tools);
    for (const [at, one] of given.entries()) {
      const name = nameOf(one);
      if (name === null) continue;
      const hasRoom =
        this.#seen.size < proxyLimits.seenToolsMax || this.#seen.has(name) || this.#pins.has(name);
      if (!hasRoom) continue;
      this.#seen.set(name, twice.has(name) ? unpinnable : (tools[at]?.hash ?? unpinnable));
    }
  }

  /** In as many reports as are needed. Tools beyond the bound of pins are left out. */
  async #tell(tools: readonly (McpTool | null)[], isWhole: boolean): Promise<void> {
    let room = limits.mcpPinsPerUpstreamMax - this.#pins.size;
    const news = tools.filter((tool) => {
      if (tool === null || !this.#isNews(tool)) return false;
      if (!this.#pins.has(tool.name)) room -= 1;
      return this.#pins.has(tool.name) || room >= 0;
    }) as McpTool[];
    if (news.length === 0 && (!isWhole || this.#wasWhole)) return;
    const parts = inParts(news);
    for (const [at, part] of parts.entries()) {
      const isLast = at === parts.length - 1;
      const reported = part.map(({ name, definition }) =>
        this.#readded.has(name) ? { definition, readded: true } : { definition },
      );
      if (!(await this.#sendOrWarn(reported, isLast && isWhole))) return;
      for (const { name } of part) this.#readded.delete(name);
    }
    this.#wasWhole ||= isWhole;
  }

  #isNews({ name, hash }: McpTool): boolean {
    const pin = this.#pins.get(name);
    if (pin === undefined) return true;
    return this.#readded.has(name) || (hash !== pin.hash && hash !== pin.new_hash);
  }

  /** False: it was not taken. */
  async #sendOrWarn(tools: McpToolReport['tools'], isWhole: boolean): Promise<boolean> {
    const refused = await this.#send(tools, isWhole);
    if (refused === null) return true;
    const what = 'the control plane takes no report of tools: pins that are known stay in force';
    this.#options.logger.warn(refused, what);
    return false;
  }

  /** Null: it was taken. */
  async #send(tools: McpToolReport['tools'], isWhole: boolean): Promise<Refused | null> {
    const { gate, upstream, report } = this.#options;
    this.#readAtMs = performance.now();
    try {
      const answer = await report({
        gate_id: gate,
        upstream,
        tools,
        is_whole: isWhole,
        revision: this.#revision,
      });
      this.#pii = answer.pii_controls;
      if (answer.pins !== null) this.#pins = new Map(answer.pins.map((pin) => [pin.tool, pin]));
      this.#revision = answer.revision;
      this.#warn();
      return null;
    } catch (error) {
      const {
        http_status: status = null,
        code = '',
        message: detail = '',
      } = error as Partial<AgentTrustError>;
      return { status, code, detail };
    }
  }

  /** Once for each change. */
  #warn(): void {
    for (const pin of this.#pins.values()) {
      if (pin.status !== 'changed') continue;
      const key = `${pin.pin_id} ${pin.new_hash}`;
      if (this.#warned.has(key)) continue;
      this.#warned.set(key, true);
      const { pin_id, tool, change } = pin;
      this.#options.logger.warn({ pin_id, tool, change }, 'a tool of the MCP server waits to be accepted');
    }
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(work).catch((error: unknown) => {
      this.#options.logger.error({ err: error }, 'tools could not be reported');
    });
    return this.#last;
  }
}

const refuse = (reason: PinRefusal['reason'], message: string): PinRefusal => ({
  reason,
  message,
  pinId: null,
  pinUrl: null,
});

const unavailable =
  'The pins of the tools cannot be read, so that no tool is known. Call it again when the control plane answers.';
const stale = 'The server says that its tools have changed. List the tools again (tools/list), then call it.';
const unlisted = 'The server has listed no such tool. List the tools (tools/list), then call one of them.';
const tooMany = `The server has more than ${limits.mcpPinsPerUpstreamMax} tools, and only so many are pinned.`;
const tooOdd =
  'The tool cannot be pinned: its definition is too large or too deep, or its name stands in the list twice.';

function sentenceOf({ pin_id, pin_url, tool, change, status }: McpGuardPin): string {
  const what =
    status === 'rejected'
      ? 'is not as it was accepted, and a person has rejected the change'
      : {
          changed: 'has changed since it was accepted',
          added: 'is new and was not accepted yet',
          renamed: 'is new, and equals another tool but for its name',
          look_alike: 'is new, and its name looks like that of another tool',
          readded: 'was gone, and is back',
          none: 'is not as it was accepted',
        }[change ?? 'none'];
  return (
    `The tool ${tool} ${what} (pin ${pin_id}). A person has to look at the difference and accept it, at ${pin_url} ` +
    `or with: agent-trust mcp-pins accept ${pin_id}. After that, call it again.`
  );
}

/** Null: none, or longer than the name of a pin. */
const nameOf = (tool: unknown): string | null => {
  const name = isJsonObject(tool) ? tool['name'] : null;
  return typeof name === 'string' && name.length <= limits.nameCharsMax ? name : null;
};

const namesOf = (tools: readonly unknown[]): readonly string[] => tools.flatMap((tool) => nameOf(tool) ?? []);

/** Names of different tools of one answer: which of them a call would run is the server's choice. */
function namesTwice(tools: readonly (McpTool | null)[]): ReadonlySet<string> {
  const hashes = new Map<string, string>();
  const twice = new Set<string>();
  for (const tool of tools) {
    if (tool === null) continue;
    if ((hashes.get(tool.name) ?? tool.hash) !== tool.hash) twice.add(tool.name);
    hashes.set(tool.name, tool.hash);
  }
  return twice;
}

/** At least one part, which may be empty: that the list is whole is worth a report. */
function inParts(tools: readonly McpTool[]): readonly (readonly McpTool[])[] {
  const parts: McpTool[][] = [[]];
  let bytes = 0;
  for (const tool of tools) {
    bytes += Buffer.byteLength(tool.definition);
    const open = parts.at(-1) ?? [];
    if (open.length < limits.mcpReportToolsMax && bytes <= limits.mcpReportBytesMax) open.push(tool);
    else {
      parts.push([tool]);
      bytes = Buffer.byteLength(tool.definition);
    }
  }
  return parts;
}
