import type { GateConstraints } from '../api/client.ts';

type Demand = GateConstraints['proof_of_possession'];

/** What gates and passports may demand of an agent, as a form offers it. */
export const proofChoices = [
  ['', 'Not required'],
  ['sidecar', 'Required, each proof once per sidecar'],
  ['exact', 'Required, each proof once over all'],
] as const;

export function proofChoiceOf(demand: Demand): string {
  if (typeof demand === 'object' && demand !== null) return demand.replay ?? 'sidecar';
  return demand === 'required' ? 'sidecar' : '';
}

/** Null: nothing is demanded. */
export function proofDemandOf(choice: string): NonNullable<Demand> | null {
  if (choice === 'exact') return { mode: 'required', replay: 'exact' };
  return choice === 'sidecar' ? 'required' : null;
}
