import { type Static, Type } from 'typebox';
import type { Template } from '../../model/template.ts';
import { renderTime } from '../../model/time.ts';
import { GateConstraints, parseNewConstraints, renderConstraints } from './constraints.ts';
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

/** The members of a new template that its account sets. */
export type NewTemplate = Pick<Template, 'name' | 'description' | 'trustLevel' | 'constraints'>;

/**
 * Throws `invalid_request` naming the field. A constraint that is not enforced yet is allowed here: it binds
 * no request until a gate is made of the template, which is refused.
 */
export const parseTemplateCreation = (body: Static<typeof TemplateCreation>): NewTemplate => ({
  name: body.name,
  description: body.description ?? null,
  trustLevel: body.trust_level ?? null,
  constraints: parseNewConstraints(body.constraints ?? {}, { param: 'constraints', of: 'template' }),
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
