/**
 * The metadata of this policy decision point (OpenID AuthZEN Authorization API 1.0 §9). `origin`: of this
 * sidecar.
 */
export const authzenConfiguration = (origin: string): string =>
  JSON.stringify({
    policy_decision_point: origin,
    access_evaluation_endpoint: `${origin}/access/v1/evaluation`,
    access_evaluations_endpoint: `${origin}/access/v1/evaluations`,
  });
