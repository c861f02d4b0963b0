import type { Owner } from '../../shared/model/owner.ts';
import type { Template } from '../../shared/model/template.ts';
import type { NewTemplate } from '../../shared/wire/api/template.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { insertTemplate } from './template-store.ts';

/** Not published to sidecars: a template binds no request until a gate is made of it. */
export async function createTemplate(
  tx: Transaction,
  deps: Pick<SigningDeps, 'random' | 'clock'>,
  owner: Owner,
  wanted: NewTemplate,
): Promise<Template> {
  const nowMs = deps.clock.now();
  const template = {
    ...wanted,
    templateId: deps.random.newId('tmpl', nowMs),
    isBuiltIn: false,
    createdAtMs: nowMs,
  };
  await insertTemplate(tx, owner, template);
  return template;
}
