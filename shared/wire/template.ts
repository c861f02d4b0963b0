import { type Static, Type } from 'typebox';
import type { Template } from '../model/template.ts';
import { renderTime } from '../model/time.ts';
import { GateConstraints, parseConstraints, renderConstraints } from './constraints.ts';
import { closed, Description, Name, nullable, Tier, Timestamp } from './fields.ts';

/** `POST /templates` */
export const TemplateCreation = closed({
  name: Name,
  description: Type.Optional(Description),
  trust_level: Type.Optional(nullable(Tier)),
  constraints: Type.Optional(GateConstraints),
});

export const TemplateAnswer = Type.Object({
  template_id: Type.String(),
  name: Type.String(),
  description: nullable(Type.String()),
  trust_level: nullable(Tier),
  constraints: GateConstraints,
  built_in: Type.Boolean(),
  created_at: Timestamp,
});

/** What an account says about a new template. */
export type NewTemplate = Pick<Template, 'name' | 'description' | 'trustLevel' | 'constraints'>;

/**
 * Throws `invalid_request` naming the field. A constraint that is not enforced yet may be kept here: it binds
 * nobody until a gate is made of it, and that is refused.
 */
export const parseTemplateCreation = (body: Static<typeof TemplateCreation>): NewTemplate => ({
  name: body.name,
  description: body.description ?? null,
  trustLevel: body.trust_level ?? null,
  constraints: parseConstraints(body.constraints ?? {}, { param: 'constraints', of: 'template' }),
});

export const renderTemplate = (template: Template): Static<typeof TemplateAnswer> => ({
  template_id: template.templateId,
  name: template.name,
  description: template.description,
  trust_level: template.trustLevel,
  constraints: renderConstraints(template.constraints),
  built_in: template.isBuiltIn,
  created_at: renderTime(template.createdAtMs),
});
