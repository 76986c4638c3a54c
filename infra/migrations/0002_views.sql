-- What people and dashboards ask, documented by column in docs/warehouse.md. Every view reads its
-- tables so that copies which are not merged yet do not count twice.

CREATE OR REPLACE VIEW events AS
SELECT
    tenant,
    concat(stream_id, '#', toString(seq)) AS event_id,
    stream_id,
    seq,
    kind,
    group_id,
    correlation_id,
    causation_id,
    occurred_at,
    recorded_at,
    producer,
    producer_version,
    policy,
    harness,
    schedule,
    action,
    observation,
    tool,
    call_id,
    error_code,
    latency_us,
    output_tokens,
    text_length,
    body
FROM event_facts FINAL;

CREATE OR REPLACE VIEW episodes AS
SELECT
    tenant,
    episode_id,
    group_id,
    task_id,
    valid,
    invalid_reason,
    success,
    progress,
    cost,
    steps,
    tool_calls,
    output_tokens,
    errors,
    termination,
    policy,
    harness,
    schedule,
    started_at,
    ended_at,
    last_seq,
    verification_id,
    fold
FROM episode_facts FINAL
ORDER BY toUInt32OrZero(fold) DESC
LIMIT 1 BY tenant, group_id, episode_id;

CREATE OR REPLACE VIEW groups AS
SELECT
    tenant,
    group_id,
    task_id,
    regime,
    size,
    valid,
    successes,
    success_rate,
    reward_mean,
    reward_std,
    anchor,
    epsilon,
    progress_std,
    p_low,
    p_high,
    lambda_prog,
    lambda_eff,
    cost_unit,
    cost_budget,
    closed_by,
    closed_at,
    capabilities,
    split,
    policy,
    harness,
    schedule,
    fold
FROM group_facts FINAL
ORDER BY toUInt32OrZero(fold) DESC
LIMIT 1 BY tenant, group_id;

CREATE OR REPLACE VIEW members AS
SELECT
    tenant,
    group_id,
    episode_id,
    task_id,
    regime,
    capabilities,
    position,
    valid,
    invalid_reason,
    success,
    progress,
    cost,
    reward,
    reward_term,
    advantage,
    output_tokens,
    tool_calls,
    steps,
    policy,
    fold
FROM member_facts FINAL
ORDER BY toUInt32OrZero(fold) DESC
LIMIT 1 BY tenant, group_id, episode_id;

CREATE OR REPLACE VIEW tool_calls AS
SELECT
    tenant,
    stream_id AS episode_id,
    seq,
    group_id,
    tool,
    call_id,
    occurred_at,
    policy,
    if(answered, next_seq, NULL) AS answer_seq,
    if(answered, next_error_code, NULL) AS error_code,
    if(answered, next_latency_us, NULL) AS latency_us,
    own_latency_us AS policy_latency_us,
    output_tokens
FROM
(
    SELECT
        tenant,
        stream_id,
        seq,
        kind,
        group_id,
        tool,
        call_id,
        occurred_at,
        policy,
        latency_us AS own_latency_us,
        output_tokens,
        leadInFrame(kind = 'observation_received') OVER next AS answered,
        leadInFrame(seq) OVER next AS next_seq,
        leadInFrame(toString(error_code)) OVER next AS next_error_code,
        leadInFrame(latency_us) OVER next AS next_latency_us
    FROM event_facts FINAL
    WHERE (kind = 'action_taken' AND action = 'tool_call')
        OR (kind = 'observation_received' AND call_id != '')
    WINDOW next AS
    (
        PARTITION BY tenant, stream_id, call_id ORDER BY seq
        ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING
    )
)
WHERE kind = 'action_taken';

CREATE OR REPLACE VIEW dead_letters AS
SELECT
    tenant,
    concat(stream_id, '#', toString(seq)) AS event_id,
    reason,
    detail,
    topic,
    partition,
    offset,
    position,
    raw_bytes,
    object_key,
    refused_by,
    record_at,
    recorded_at
FROM dead_letter_facts FINAL;

CREATE OR REPLACE VIEW training_records AS
SELECT
    tenant,
    record_id,
    episode_id,
    group_id,
    task_id,
    outcome,
    reasons,
    capabilities,
    success,
    backend,
    fidelity,
    masked_seqs,
    supervised_turns,
    first_event_id,
    last_event_id,
    evidence,
    content_digest,
    failure_kind,
    split,
    object_key,
    object_sha256,
    policy,
    concat(stream_id, '#', toString(seq)) AS event_id,
    occurred_at AS curated_at
FROM record_facts FINAL
ORDER BY seq DESC
LIMIT 1 BY tenant, stream_id;

CREATE OR REPLACE VIEW batches AS
SELECT
    ready.tenant AS tenant,
    ready.batch_id AS batch_id,
    ready.kind AS kind,
    ready.policy_version AS policy,
    ready.trained_tokens AS trained_tokens,
    ready.digest AS digest,
    ready.occurred_at AS ready_at,
    if(trained.batch_id = '', NULL, trained.to_policy_version) AS to_policy,
    if(trained.batch_id = '', NULL, trained.update) AS update,
    if(trained.batch_id = '', NULL, trained.loss) AS loss,
    if(trained.batch_id = '', NULL, trained.gradient_norm) AS gradient_norm,
    if(trained.batch_id = '', NULL, trained.clipped_share) AS clipped_share,
    if(trained.batch_id = '', NULL, trained.groups) AS groups,
    if(trained.batch_id = '', NULL, trained.episodes) AS episodes,
    if(trained.batch_id = '', NULL, trained.groups_without_advantage) AS groups_without_advantage,
    if(trained.batch_id = '', NULL, trained.occurred_at) AS trained_at
FROM (SELECT * FROM batch_facts FINAL ORDER BY stream_id, seq LIMIT 1 BY tenant, batch_id) AS ready
LEFT JOIN
    (SELECT * FROM update_facts FINAL ORDER BY stream_id, seq LIMIT 1 BY tenant, batch_id) AS trained
ON ready.tenant = trained.tenant AND ready.batch_id = trained.batch_id
SETTINGS join_use_nulls = 0;

CREATE OR REPLACE VIEW batch_rows AS
SELECT tenant, batch_id, position, episode_id, group_id, source_event_id, advantage, weight
FROM batch_row_facts FINAL
ORDER BY stream_id, seq
LIMIT 1 BY tenant, batch_id, position;

CREATE OR REPLACE VIEW policies AS
SELECT
    tenant,
    policy_version AS policy,
    parent_version AS parent,
    update,
    architecture,
    parameters,
    batch_ids,
    object_key,
    object_sha256,
    object_bytes,
    concat(stream_id, '#', toString(seq)) AS event_id,
    occurred_at AS published_at
FROM policy_facts FINAL
ORDER BY stream_id, seq
LIMIT 1 BY tenant, policy;

CREATE OR REPLACE VIEW competence AS
SELECT
    tenant,
    policy,
    scope,
    name,
    uniqExact(group_id) AS groups,
    sum(fact.episodes) AS episodes,
    sum(fact.successes) AS successes,
    if(episodes = 0, NULL, successes / episodes) AS success_rate,
    argMax(regime, (occurred_at, group_id)) AS last_regime,
    max(occurred_at) AS measured_at
FROM competence_facts AS fact FINAL
GROUP BY tenant, policy, scope, name;

CREATE OR REPLACE VIEW regimes AS
SELECT
    tenant,
    policy,
    capability,
    regime,
    uniqExact(group_id) AS groups,
    countIf(valid) AS episodes,
    countIf(valid AND success) AS successes,
    if(episodes = 0, NULL, successes / episodes) AS success_rate,
    if(episodes = 0, NULL, sumIf(cost, valid) / episodes) AS mean_cost
FROM members
ARRAY JOIN arrayConcat([''], arrayDistinct(capabilities)) AS capability
GROUP BY tenant, policy, capability, regime;

CREATE OR REPLACE VIEW costs AS
SELECT
    tenant,
    policy,
    count() AS episodes,
    countIf(success) AS successes,
    if(countIf(told IS NULL) > 0, NULL, sum(told)) AS output_tokens,
    sum(calls) AS tool_calls,
    if(successes = 0, NULL, output_tokens / successes) AS tokens_per_success,
    if(successes = 0, NULL, tool_calls / successes) AS tool_calls_per_success
FROM
(
    SELECT tenant, policy, success, episodes.output_tokens AS told, episodes.tool_calls AS calls
    FROM episodes
    WHERE valid
)
GROUP BY tenant, policy;

CREATE OR REPLACE VIEW refills AS
SELECT
    tenant,
    group_id,
    seq,
    JSONExtractString(body, 'task_id') AS task_id,
    JSONExtractString(body, 'replaces_episode_id') AS replaces_episode_id,
    JSONExtractString(body, 'reason') AS reason,
    JSONExtractUInt(body, 'missing') AS missing,
    occurred_at
FROM event_facts FINAL
WHERE kind = 'refill_requested';

CREATE OR REPLACE VIEW gaps AS
SELECT
    tenant,
    group_id,
    seq,
    JSONExtractString(body, 'gapped_stream_id') AS stream_id,
    JSONExtractUInt(body, 'expected_seq') AS expected_seq,
    JSONExtractUInt(body, 'found_seq') AS found_seq,
    occurred_at
FROM event_facts FINAL
WHERE kind = 'sequence_gap_found';

CREATE OR REPLACE VIEW late_verdicts AS
SELECT
    tenant,
    group_id,
    seq,
    JSONExtractString(body, 'episode_id') AS episode_id,
    JSONExtractString(body, 'late_event_id') AS late_event_id,
    JSONExtractBool(body, 'success') AS success,
    JSONExtractFloat(body, 'progress') AS progress,
    JSONExtractBool(body, 'was_member') AS was_member,
    occurred_at
FROM event_facts FINAL
WHERE kind = 'verdict_came_late';

CREATE OR REPLACE VIEW lag AS
SELECT
    consumer,
    topic,
    partition,
    position,
    end,
    greatest(end - position, 0) AS lag,
    seconds_behind,
    observed_at
FROM lag_facts FINAL;
