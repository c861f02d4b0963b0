import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { PiiFinding } from '../shared/model/attestation.ts';
import { type PiiControls, piiTypes } from '../shared/model/constraints.ts';
import { redactRequest } from '../shared/pii/redact-request.ts';
import { scanPii } from '../shared/pii/scan-pii.ts';
import { proxyLimits } from './limits.ts';

/** What became of the personal data of an answer. */
export type Searched =
  | { readonly kind: 'pass' }
  /** `log_only`: pointers and types, never values. */
  | { readonly kind: 'found'; readonly findings: readonly PiiFinding[] }
  | { readonly kind: 'redacted'; readonly value: JsonObject; readonly findings: readonly PiiFinding[] }
  | { readonly kind: 'refused'; readonly reason: string; readonly findings: readonly PiiFinding[] };

/**
 * Treats an answer as the gate treats requests (contract §7), but for its length: answers are longer.
 * Pictures and sounds are not searched. Until the controls of the gate are known, it counts as one that
 * blocks all.
 */
export function searchAnswer(value: JsonObject, controls: PiiControls | null | 'unknown'): Searched {
  if (controls === null) return { kind: 'pass' };
  const { mode, types } = controls === 'unknown' ? { mode: 'block', types: piiTypes } : controls;
  const text = structuredClone(value);
  const media = mediaIn(text).map((path) => ({ path, base64: exchange(text, path, '') }));
  const scan = scanPii(text, types, bounds);
  const { findings, isComplete } = scan;
  if (mode === 'log_only') {
    const all: readonly PiiFinding[] = isComplete
      ? findings
      : [...findings, { pointer: '', type: 'unscanned' }];
    return all.length === 0 ? { kind: 'pass' } : { kind: 'found', findings: all };
  }
  if (!isComplete) {
    return {
      kind: 'refused',
      findings,
      reason: 'it has more text than is searched for personal data',
    };
  }
  if (findings.length === 0) return { kind: 'pass' };
  if (mode === 'block') {
    const reason = controls === 'unknown' ? unknownControls : 'it holds personal data, which the gate blocks';
    return { kind: 'refused', findings, reason };
  }
  const { request } = redactRequest(text, types, scan);
  // A text of more than a request may hold more than is replaced in one.
  const rest = scanPii(request, types, bounds);
  if (rest.findings.length > 0 || !rest.isComplete) {
    return { kind: 'refused', findings, reason: 'it holds more personal data than can be replaced' };
  }
  for (const { path, base64 } of media) if (base64 !== null) exchange(request, path, base64);
  return { kind: 'redacted', value: request, findings };
}

const unknownControls =
  'it holds personal data, and what the gate does with that is not known yet: the control plane does not answer';

const bounds = { charsMax: proxyLimits.answerScanCharsMax, depthMax: proxyLimits.jsonDepthMax };

type Path = readonly (string | number)[];

/**
 * Where the protocol has base64: `data` of images and sounds among the contents, `blob` of resources. These
 * members anywhere else are texts.
 */
function mediaIn(value: JsonObject, at: Path = []): readonly Path[] {
  const messages = itemsOf(value['messages'], [...at, 'messages']);
  const blocks = [
    ...itemsOf(value['content'], [...at, 'content']),
    ...messages.flatMap(([message, place]) => itemsOf(message['content'], [...place, 'content'])),
  ];
  const resources = itemsOf(value['contents'], [...at, 'contents']).map(([, place]) => [...place, 'blob']);
  return [...resources, ...blocks.flatMap(([block, place]) => mediaOf(block, place))];
}

function mediaOf(block: JsonObject, at: Path): readonly Path[] {
  switch (block['type']) {
    case 'image':
    case 'audio':
      return [[...at, 'data']];
    case 'resource':
      return [[...at, 'resource', 'blob']];
    case 'tool_result':
      return mediaIn(block, at);
    default:
      return [];
  }
}

/** The objects of a list, or the one in its place. */
const itemsOf = (value: unknown, at: Path): readonly (readonly [JsonObject, Path])[] =>
  (Array.isArray(value) ? value : [value]).flatMap((item: unknown, index): [JsonObject, Path][] =>
    isJsonObject(item) ? [[item, Array.isArray(value) ? [...at, index] : at]] : [],
  );

/** Puts a text there, and answers the one that was there. Null: there is no base64, and nothing changes. */
function exchange(root: JsonObject, path: Path, text: string): string | null {
  const [name = '', ...above] = path.toReversed();
  let holder: unknown = root;
  for (const step of above.reverse()) holder = (holder as Record<string | number, unknown> | null)?.[step];
  if (!isJsonObject(holder)) return null;
  const { [name]: before } = holder;
  if (typeof before !== 'string' || !/^[\w+/=-]*$/.test(before)) return null;
  (holder as Record<string, unknown>)[name] = text;
  return before;
}
