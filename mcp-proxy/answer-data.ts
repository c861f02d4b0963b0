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
  const binaries: string[] = [];
  const text = withoutBinaries(value, binaries) as JsonObject;
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
  return { kind: 'redacted', value: withBinaries(request, binaries) as JsonObject, findings };
}

const unknownControls =
  'it holds personal data, and what the gate does with that is not known yet: the control plane does not answer';

const bounds = { charsMax: proxyLimits.answerScanCharsMax, depthMax: proxyLimits.jsonDepthMax };

const placeholder = 'agent-trust-binary-';

/** Members that the protocol fills with base64: `data` of images and sounds, `blob` of resources. */
function withoutBinaries(value: unknown, binaries: string[]): unknown {
  if (Array.isArray(value)) return value.map((each) => withoutBinaries(each, binaries));
  if (!isJsonObject(value)) return value;
  const isMedia = value['type'] === 'image' || value['type'] === 'audio';
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const isBinary = typeof member === 'string' && (name === 'blob' || (isMedia && name === 'data'));
      if (!isBinary || !/^[\w+/=-]*$/.test(member)) return [name, withoutBinaries(member, binaries)];
      binaries.push(member);
      return [name, `${placeholder}${binaries.length - 1}`];
    }),
  );
}

function withBinaries(value: unknown, binaries: readonly string[]): unknown {
  if (typeof value === 'string') {
    const at = value.startsWith(placeholder) ? Number(value.slice(placeholder.length)) : -1;
    return binaries[at] ?? value;
  }
  if (Array.isArray(value)) return value.map((each) => withBinaries(each, binaries));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, withBinaries(each, binaries)]),
  );
}
