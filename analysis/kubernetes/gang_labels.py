"""Labels and annotations from which the gang of a pod follows, and its place in it."""

LABELS = (
    "kueue.x-k8s.io/pod-group-name",
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
)
"""Labels with the name of a gang, best first."""
GROUP_ANNOTATIONS = ("pod-group-name", "scheduling.k8s.io/group-name")
"""Annotations with the PodGroup of a pod: of KAI, of Volcano."""
RAY = "ray.io/cluster"
LEADER, LEADER_GROUP = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"
JOB_NAME = "batch.kubernetes.io/job-name"
INDEXES = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
    "apps.kubernetes.io/pod-index",
)
KINDS_OF_REPLICAS = ("training.kubeflow.org/replica-type", "volcano.sh/task-spec",
                     "jobset.sigs.k8s.io/replicatedjob-name", "ray.io/group")  # fmt: skip
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
GANG_LABELS = frozenset(
    {*LABELS, *GROUP_ANNOTATIONS, RAY, LEADER, LEADER_GROUP, JOB_NAME, *INDEXES,
     *KINDS_OF_REPLICAS, JOB_INDEX}
)  # fmt: skip
"""All of them."""
