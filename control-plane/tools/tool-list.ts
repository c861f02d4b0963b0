import { makesKeys, type Scope } from '../../shared/model/scopes.ts';
import { createApiKey } from './api-key-tools.ts';
import { listApprovals, resolveApproval } from './approval-tools.ts';
import { getAttestation } from './attestation-tools.ts';
import { discoverGates, listGates, testGate } from './gate-tools.ts';
import { createPassport, listPassports, revokePassport, verifyPassport } from './passport-tools.ts';
import type { Tool } from './tool.ts';

/** The tools of contract §13, in the order in which they are listed. */
export const tools: readonly Tool[] = [
  createPassport,
  revokePassport,
  createApiKey,
  resolveApproval,
  listPassports,
  verifyPassport,
  discoverGates,
  listGates,
  getAttestation,
  listApprovals,
  testGate,
];

export const findTool = (name: unknown): Tool | undefined => tools.find((tool) => tool.name === name);

/**
 * What a token must hold to call every one of them, but for those that make API keys: a client gets such a
 * scope only where it asks for it by name (contract §13), and many ask for all that a server lists.
 */
export const offeredScopes: readonly Scope[] = [...new Set(tools.flatMap(({ scope }) => scope ?? []))].filter(
  (scope) => !makesKeys(scope),
);
