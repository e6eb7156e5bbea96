"""List the container classes by theme.

Every file has one line here, so that type checkers see its classes too.
"""

from hbconv.containers.nodes.affine import Affine
from hbconv.containers.nodes.arithmetic import (
    Add,
    Maximum,
    Modulo,
    Multiply,
    Power,
    Quotient,
    RowDot,
)
from hbconv.containers.nodes.basis_functions import Bins, Interpolate, Polynomial, SplineBasis
from hbconv.containers.nodes.binary_distances import BINARY_FORMULAS, BinaryDistances
from hbconv.containers.nodes.calendar import CalendarField, DateColumn, Instants, LocalTime
from hbconv.containers.nodes.codes import (
    FIRST_CODE,
    CategoryCodes,
    CategoryNumbers,
    OneHot,
    Recode,
)
from hbconv.containers.nodes.conditions import (
    AreBools,
    Choose,
    IsOtherDtype,
    IsOutside,
    Not,
    NoTexts,
    OnlyNumbers,
    Relation,
)
from hbconv.containers.nodes.contributions import TreeContributions, TreeInteractions
from hbconv.containers.nodes.decisions import ArgMax, Compare, IsBeyond, IsNonFinite, Softmax
from hbconv.containers.nodes.distances import (
    BoxDistances,
    Distances,
    SharedDistances,
    SquaredDistances,
)
from hbconv.containers.nodes.elementwise import Clip, Map, SoftThreshold
from hbconv.containers.nodes.find_code import FindCode
from hbconv.containers.nodes.haversine import Angle, Haversine
from hbconv.containers.nodes.inputs import (
    CleanText,
    Codes,
    Columns,
    Entries,
    FillObjects,
    FromObjects,
    HashCodes,
    Hashed,
    Hashes,
    KeepText,
)
from hbconv.containers.nodes.lasso_descent import LassoDescent
from hbconv.containers.nodes.least_angles import LeastAngles
from hbconv.containers.nodes.linear import Linear, OrderedLinear, WrappedLinear
from hbconv.containers.nodes.lookups import LookupRows, LookupSum, WeightedLookup
from hbconv.containers.nodes.matching_pursuit import MatchingPursuit
from hbconv.containers.nodes.missing import Impute, IsMissing, MissingBetween
from hbconv.containers.nodes.neighbor_graphs import Held, Scatter, ShortestPaths
from hbconv.containers.nodes.neighbors import (
    Barycentric,
    ChoosesNearest,
    EntriesAt,
    InverseDistances,
    Nearest,
    NearestPoints,
    Searched,
    SquaresAt,
    reads_tied_points,
)
from hbconv.containers.nodes.non_negative_weights import NonNegativeWeights
from hbconv.containers.nodes.normalize import Normalize
from hbconv.containers.nodes.pairwise_coupling import PairwiseCoupling
from hbconv.containers.nodes.power_transforms import BoxCox, NormalQuantile, YeoJohnson
from hbconv.containers.nodes.probabilities import (
    ExpectedSigmoid,
    FiniteLog,
    LogAdd,
    Logits,
    LogSoftmax,
    LogSumExp,
    Proportions,
    SymmetricLogit,
)
from hbconv.containers.nodes.sums import GroupSums, Pool, RunningSums
from hbconv.containers.nodes.table_exp import TableExp, TableLogSoftmax, TableSoftmax
from hbconv.containers.nodes.topic_mixture import TopicMixture
from hbconv.containers.nodes.trees import LeafSums, StagedLeafSums, TreeEnsemble, TreeLeaves
from hbconv.containers.nodes.triangular import TriangularSolution
from hbconv.containers.nodes.votes import PairVotes, Votes, WeightedMedian
from hbconv.containers.nodes.wiring import (
    Beside,
    ByForm,
    Cast,
    CastLike,
    Concat,
    ConstantRows,
    Select,
    Spread,
    Together,
)

__all__ = [
    "BINARY_FORMULAS",
    "FIRST_CODE",
    "Add",
    "Affine",
    "Angle",
    "AreBools",
    "ArgMax",
    "Barycentric",
    "Beside",
    "BinaryDistances",
    "Bins",
    "BoxCox",
    "BoxDistances",
    "ByForm",
    "CalendarField",
    "Cast",
    "CastLike",
    "CategoryCodes",
    "CategoryNumbers",
    "Choose",
    "ChoosesNearest",
    "CleanText",
    "Clip",
    "Codes",
    "Columns",
    "Compare",
    "Concat",
    "ConstantRows",
    "DateColumn",
    "Distances",
    "Entries",
    "EntriesAt",
    "ExpectedSigmoid",
    "FillObjects",
    "FindCode",
    "FiniteLog",
    "FromObjects",
    "GroupSums",
    "HashCodes",
    "Hashed",
    "Hashes",
    "Haversine",
    "Held",
    "Impute",
    "Instants",
    "Interpolate",
    "InverseDistances",
    "IsBeyond",
    "IsMissing",
    "IsNonFinite",
    "IsOtherDtype",
    "IsOutside",
    "KeepText",
    "LassoDescent",
    "LeafSums",
    "LeastAngles",
    "Linear",
    "LocalTime",
    "LogAdd",
    "LogSoftmax",
    "LogSumExp",
    "Logits",
    "LookupRows",
    "LookupSum",
    "Map",
    "MatchingPursuit",
    "Maximum",
    "MissingBetween",
    "Modulo",
    "Multiply",
    "Nearest",
    "NearestPoints",
    "NoTexts",
    "NonNegativeWeights",
    "NormalQuantile",
    "Normalize",
    "Not",
    "OneHot",
    "OnlyNumbers",
    "OrderedLinear",
    "PairVotes",
    "PairwiseCoupling",
    "Polynomial",
    "Pool",
    "Power",
    "Proportions",
    "Quotient",
    "Recode",
    "Relation",
    "RowDot",
    "RunningSums",
    "Scatter",
    "Searched",
    "Select",
    "SharedDistances",
    "ShortestPaths",
    "SoftThreshold",
    "Softmax",
    "SplineBasis",
    "Spread",
    "SquaredDistances",
    "SquaresAt",
    "StagedLeafSums",
    "SymmetricLogit",
    "TableExp",
    "TableLogSoftmax",
    "TableSoftmax",
    "Together",
    "TopicMixture",
    "TreeContributions",
    "TreeEnsemble",
    "TreeInteractions",
    "TreeLeaves",
    "TriangularSolution",
    "Votes",
    "WeightedLookup",
    "WeightedMedian",
    "WrappedLinear",
    "YeoJohnson",
    "reads_tied_points",
]
