import { must } from '../../shared/errors/assert.ts';
import type { Actor } from '../../shared/model/audit.ts';
import { readActor, renderOptionalActor } from '../../shared/wire/evidence/audit.ts';

/** The text of a jsonb column that names an actor. */
export function storedActor(actor: Actor | null): string | null {
  const rendered = renderOptionalActor(actor);
  return rendered === null ? null : JSON.stringify(rendered);
}

/** What `storedActor` wrote. Null: an earlier version of the service kept none. */
export const readStoredActor = (column: unknown): Actor | null =>
  column === null ? null : must(readActor(column), 'a stored actor can be read');
