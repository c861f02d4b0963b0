import type { PiiControls } from '../model/constraints.ts';
import { scanPii } from './scan-pii.ts';

/**
 * The domain in records, as `permissionOnRecord`: the text of an agent, and null at a gate whose controls
 * find personal data in it, such as an IP address.
 */
export function domainOnRecord(domain: string | null, controls: PiiControls | null): string | null {
  if (domain === null || controls === null) return domain;
  return scanPii({ domain }, controls.types).findings.length === 0 ? domain : null;
}
